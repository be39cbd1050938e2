"""Simulates group members that talk to a coordinator on a manual clock.

Every request is an `Ask` that stores its reply and the reply's time; the clock advances from deadline to
deadline, so that replies have exact times. Every record is kept, so that a second coordinator can be built
from them.
"""

from collections.abc import Collection
from itertools import count
from typing import Any

from broker.common.clock import BASE_MS
from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.config.sections.streams_groups import StreamsGroupConfig, streams_group_settings
from broker.coordinator.group.consumer.assignment import NO_TOPICS
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.messages import (
    CommitRequest,
    Effects,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    Now,
    OffsetToCommit,
    Record,
    SyncRequest,
)

WALL_MS = 1_750_000_000_000


def subscription(*topics: str) -> bytes:
    """Return a consumer's metadata, version 1, as every client sends it."""
    names = b"".join(len(topic.encode()).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x01" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Ask:
    """A request to the coordinator, and its token. `at` is the time of the reply, in ms since the start."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.at: int | None = None

    @property
    def parked(self) -> bool:
        return self.reply is None


class Conversation:
    """`consumer` has the settings of consumer groups, `share` and `streams` those of the others;
    `group_configs` are those of single groups.
    """

    def __init__(
        self,
        *,
        consumer: ConsumerGroupConfig | None = None,
        share: ShareGroupConfig | None = None,
        streams: StreamsGroupConfig | None = None,
        **config: int,
    ) -> None:
        self.config = GroupConfig(**config)
        self.consumer = consumer or ConsumerGroupConfig()
        self.share = share or ShareGroupConfig()
        self.streams = streams or StreamsGroupConfig()
        self.group_configs: dict[str, dict[str, str]] = {}
        self.topics = NO_TOPICS
        numbers = count(1)
        self.coordinator = GroupCoordinator(
            self.config,
            self.consumer,
            self.share,
            lambda: self.topics,
            lambda _group_id: self.consumer,
            lambda _group_id: self.share,
            lambda group_id: streams_group_settings(self.group_configs.get(group_id, {}), self.streams),
            new_uuid=lambda: str(next(numbers)),
        )
        self.elapsed = 0
        self.records: list[Record] = []
        self.last = Effects()
        self._take(self.coordinator.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(BASE_MS + self.elapsed, WALL_MS + self.elapsed)

    def wait(self, ms: int) -> None:
        """Advance the clock, stopping at every deadline."""
        end = self.elapsed + ms
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= BASE_MS + end:
            self.elapsed = deadline - BASE_MS
            self._take(self.coordinator.expire(self.now))
        self.elapsed = end

    def wait_in_one_go(self, ms: int) -> None:
        """Advance the clock in one step and expire once."""
        self.elapsed += ms
        self._take(self.coordinator.expire(self.now))

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        client: str = "client",
        session: int = 10_000,
        rebalance: int = 60_000,
        protocol_type: str = "consumer",
        protocols: tuple[tuple[str, bytes], ...] = (("range", subscription("t")),),
        old_client: bool = False,
        can_skip: bool = True,
    ) -> Ask:
        ask = Ask()
        request = JoinRequest(
            group,
            member_id,
            instance,
            client,
            "/10.0.0.1",
            session,
            rebalance,
            protocol_type,
            protocols,
            requires_member_id=not old_client,
            can_skip_assignment=can_skip,
        )
        self._take(run_through(self.coordinator.classic.join(request, ask, self.now)))
        return ask

    def join_twice(self, **options: Any) -> tuple[str, Ask]:
        """Join as a new dynamic member does: request an id, then join with it."""
        member_id = self.join(**options).reply.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
    ) -> Ask:
        ask = Ask()
        pairs = list((assignments or {}).items())
        request = SyncRequest(group, generation, member_id, instance, protocol_type, protocol, dict(pairs))
        self._take(run_through(self.coordinator.classic.sync(request, ask, self.now)))
        return ask

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> ErrorCode:
        return self.coordinator.classic.heartbeat(group, generation, member_id, instance, self.now)

    def leave(self, *leaving: str | LeavingMember, group: str = "g") -> Any:
        ask = Ask()
        members = [LeavingMember(one) if isinstance(one, str) else one for one in leaving]
        self._take(run_through(self.coordinator.classic.leave(group, members, ask, self.now)))
        return ask.reply

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *offsets: OffsetToCommit,
        group: str = "g",
        instance: str | None = None,
        retention: int = -1,
        old_client: bool = False,
    ) -> list[ErrorCode]:
        ask = Ask()
        wanted = offsets or (OffsetToCommit("t", 0, 42),)
        request = CommitRequest(
            group, generation, member_id, instance, wanted, retention, knows_missing_groups=not old_client
        )
        self._take(self.coordinator.offsets.commit(request, ask, self.now))
        return list(ask.reply.errors)

    def committed(self, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
        found = self.coordinator.offsets.committed(group).get(topic, {}).get(partition)
        return None if found is None else found.offset

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> Any:
        ask = Ask()
        subscribed = run_through(
            self.coordinator.offsets.subscribed_topics(group, {topic for topic, _ in partitions})
        )
        self._take(self.coordinator.offsets.delete(group, partitions, subscribed, ask, self.now))
        return ask.reply

    def delete(self, *groups: str) -> list[ErrorCode]:
        ask = Ask()
        self._take(self.coordinator.delete(groups, ask, self.now))
        return list(ask.reply.errors)

    def fail(self, *calls: Effects, error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """Fail the records of these calls, the last one first; their replies were not sent."""
        for effects in calls:
            for ask, _ in effects.replies:
                assert isinstance(ask, Ask)
                ask.reply = None
            if effects.records:
                del self.records[-len(effects.records) :]
            self._take(self.coordinator.roll_back(effects, error, self.now))

    def state(self, group: str = "g") -> str:
        return self.coordinator.classic.described(group, missing_is_error=False).state

    def members(self, group: str = "g") -> dict[str, bytes]:
        """Return the assignments by member id."""
        described = self.coordinator.classic.described(group, missing_is_error=False)
        return {member.member_id: member.assignment for member in described.members}

    def listed(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        pieces = self.coordinator.listed_in_pieces(states, types)
        return [group for piece in pieces for group in piece]

    def stable(self, size: int = 2, **options: Any) -> list[str]:
        """Create a group of dynamic members in its first generation; the first one leads."""
        joined = [self.join_twice(**options) for _ in range(size)]
        while joined[0][1].parked:
            self.wait(1_000)
            for member_id, _ in joined:
                self.heartbeat(member_id, 0)
        ids = [member_id for member_id, _ in joined]
        generation = joined[0][1].reply.generation_id
        followers = [self.sync(member_id, generation, protocol=None) for member_id in ids[1:]]
        self.sync(ids[0], generation, {each: f"for {each}".encode() for each in ids}, protocol=None)
        assert all(not ask.parked for ask in followers)
        return ids

    def restarted(self, **config: int) -> "Conversation":
        """Return a new coordinator built from the records of this one."""
        other = Conversation(consumer=self.consumer, **config)
        other.topics = self.topics
        for key, value in self.records:
            other.coordinator.replay(key, value)
        other.elapsed = self.elapsed
        other._take(other.coordinator.loaded(other.now))
        return other

    def _take(self, effects: Effects) -> None:
        for ask, reply in effects.replies:
            assert isinstance(ask, Ask)
            assert ask.parked, "answered twice"
            ask.reply, ask.at = reply, self.elapsed
        self.records += effects.records
        self.last = effects
