"""One call to the coordinator while it runs: when it is, what it may use, and what it has led to so far.

Made by `coordinator`, passed through every transition, and read off as `Effects`. Knows nothing of phases.
"""

from typing import NamedTuple

from broker.config.sections.groups import GroupConfig
from broker.groups.committed import CommittedOffset, Offsets
from broker.groups.records import encode_offset_key, encode_offset_value
from broker.groups.replies import Effects, JoinReply, Record, Reply, SyncReply, Token
from broker.groups.requests import Now
from broker.groups.timers import Timer, Timers

Waiting = dict[str, Token | None]
"""Parked requests of one group by member id; None where the client has gone and its answer goes nowhere."""


class Place(NamedTuple):
    """Where a parked request waits, and how it is answered if it is not to wait any longer."""

    waiting: Waiting
    member_id: str
    superseded: JoinReply | SyncReply


PendingReplies = dict[Token, Place]


class Transition:
    """`parked` and `timers` are the coordinator's own and outlive the turn."""

    __slots__ = ("config", "effects", "now_ms", "parked", "timers", "wall_ms")

    def __init__(self, config: GroupConfig, timers: Timers, parked: PendingReplies, now: Now) -> None:
        self.config = config
        self.timers = timers
        self.parked = parked
        self.now_ms = now.ms
        self.wall_ms = now.wall_ms
        self.effects = Effects()

    def reply(self, token: Token, reply: Reply) -> None:
        self.effects.replies.append((token, reply))

    def park(self, waiting: Waiting, member_id: str, token: Token, superseded: JoinReply | SyncReply) -> None:
        """Keep the request until `answer`. One that the member had left waiting is answered `superseded`."""
        self.answer(waiting, member_id, superseded)
        waiting[member_id] = token
        self.parked[token] = Place(waiting, member_id, superseded)

    def answer(self, waiting: Waiting, member_id: str, reply: Reply) -> bool:
        """Answer the member's parked request. False when it had none."""
        if member_id not in waiting:
            return False
        token = waiting.pop(member_id)
        if token is not None:
            del self.parked[token]
            self.effects.replies.append((token, reply))
        return True

    def record(self, record: Record) -> None:
        self.effects.records.append(record)

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        self.timers.set(timer, self.now_ms + delay_ms)

    def put_offset(
        self, group_id: str, offsets: Offsets, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Commit the offset, in memory and as a record."""
        by_partition = offsets.setdefault(topic, {})
        self.effects.overwritten.append((group_id, topic, partition, by_partition.get(partition)))
        by_partition[partition] = committed
        self.record((encode_offset_key(group_id, topic, partition), encode_offset_value(committed)))

    def drop_offset(self, group_id: str, offsets: Offsets, topic: str, partition: int) -> None:
        """Remove the offset if there is one, in memory and by a tombstone."""
        by_partition = offsets.get(topic, {})
        previous = by_partition.pop(partition, None)
        if previous is None:
            return
        if not by_partition:
            del offsets[topic]
        self.effects.overwritten.append((group_id, topic, partition, previous))
        self.record((encode_offset_key(group_id, topic, partition), None))
