"""One call to the coordinator in progress: its time, its configuration and its effects so far.

Created by `groups` and passed through every transition; the result is `Effects`.
"""

from typing import NamedTuple, Protocol

from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import (
    CommittedOffset,
    Effects,
    JoinReply,
    Now,
    Offsets,
    Record,
    Reply,
    SyncReply,
    Token,
)
from broker.coordinator.group.pending_offsets import PendingOffsets
from broker.coordinator.group.records import encode_offset_key, encode_offset_value
from broker.coordinator.group.timers import GroupTimer, SetsTimers

PendingTokens = dict[str, Token | None]
"""The tokens of a group's pending requests by member id; None after `release`."""


class PendingRequest(NamedTuple):
    """A pending request of a member, and its reply in case another request supersedes it."""

    tokens: PendingTokens
    member_id: str
    superseded: JoinReply | SyncReply


PendingRequests = dict[Token, PendingRequest]


class Changing(Protocol):
    """A group that a call changes, and that can be copied before."""

    @property
    def group_id(self) -> str: ...

    @property
    def revision(self) -> int: ...

    @revision.setter
    def revision(self, value: int) -> None: ...

    def copy(self) -> object: ...


class Transition:
    """A call in progress. `pending`, `pending_offsets` and `timers` belong to the coordinator and outlive it.
    The `assignment_interval_ms` is that of a large group, and 0 for any other.
    """

    __slots__ = (
        "assignment_interval_ms",
        "config",
        "consumer",
        "effects",
        "now_ms",
        "pending",
        "pending_offsets",
        "share",
        "timers",
        "topics",
        "wall_ms",
    )

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        topics: ClusterTopics,
        timers: SetsTimers,
        pending: PendingRequests,
        pending_offsets: PendingOffsets,
        now: Now,
    ) -> None:
        self.config = config
        self.consumer = consumer
        self.share = share
        self.topics = topics
        self.timers = timers
        self.pending = pending
        self.pending_offsets = pending_offsets
        self.now_ms = now.ms
        self.wall_ms = now.wall_ms
        self.effects = Effects()
        self.assignment_interval_ms = 0

    def reply(self, token: Token, reply: Reply) -> None:
        self.effects.replies.append((token, reply))

    def add_pending(
        self, tokens: PendingTokens, member_id: str, token: Token, superseded: JoinReply | SyncReply
    ) -> None:
        """Keep the request pending until `complete_pending`.

        Completes an earlier pending request of the member with `superseded`.
        """
        self.complete_pending(tokens, member_id, superseded)
        tokens[member_id] = token
        self.pending[token] = PendingRequest(tokens, member_id, superseded)

    def complete_pending(self, tokens: PendingTokens, member_id: str, reply: Reply) -> bool:
        """Complete the member's pending request. Return False if there is none."""
        if member_id not in tokens:
            return False
        token = tokens.pop(member_id)
        if token is not None:
            del self.pending[token]
            self.effects.replies.append((token, reply))
        return True

    def record(self, record: Record) -> None:
        self.effects.records.append(record)

    def keep(self, group: Changing) -> None:
        """Keep the group as it is before the first change of this call."""
        replaced = self.effects.replaced
        if all(group_id != group.group_id for group_id, _ in replaced):
            replaced.append((group.group_id, group.copy()))
            group.revision += 1

    def is_too_soon(self, assigned_ms: int | None) -> bool:
        """Return whether a new member of a large group waits for the next assignment, as the last one was at
        `assigned_ms`. (KIP-1263)
        """
        return assigned_ms is not None and self.now_ms < assigned_ms + self.assignment_interval_ms

    def set_timer(self, timer: GroupTimer, delay_ms: int) -> None:
        self.timers.set(timer, self.now_ms + delay_ms)

    def put_offset(
        self, group_id: str, offsets: Offsets, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        """Commit the offset in memory and as a record."""
        record = encode_offset_key(group_id, topic, partition), encode_offset_value(committed)
        by_partition = offsets.setdefault(topic, {})
        self.effects.overwritten.append((group_id, topic, partition, by_partition.get(partition)))
        by_partition[partition] = committed
        self.record(record)

    def drop_offset(self, group_id: str, offsets: Offsets, topic: str, partition: int) -> None:
        """Remove the offset, if any, in memory and by a tombstone, which also removes what open transactions
        have committed.
        """
        by_partition = offsets.get(topic, {})
        previous = by_partition.pop(partition, None)
        if previous is not None:
            if not by_partition:
                del offsets[topic]
            self.effects.overwritten.append((group_id, topic, partition, previous))
        elif not self.pending_offsets.has(group_id, topic, partition):
            return
        self.record((encode_offset_key(group_id, topic, partition), None))
