"""A member of a consumer group. (Kafka: ConsumerGroupMember, MemberState)"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment
from broker.coordinator.group.consumer.assignment_epochs import NO_EPOCHS, AssignmentEpochs, epoch_of
from broker.coordinator.group.modern_group import JOINS, MemberTimers, bytes_of
from broker.coordinator.group.timers import GroupTimer, TimerKind

LEAVES_FOR_NOW: Final = -2
"""The epoch of a static member that has left and keeps its partitions for the session timeout."""


class MemberState(IntEnum):
    """The progress of a member towards its target assignment; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicProtocols(msgspec.Struct, frozen=True):
    """The statements of a member of the classic protocol in its JoinGroup; `protocols` in its order."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member and its current assignment.

    `topics` are the subscribed names, sorted; `regex` is a subscribed regular expression, None or "" without
    one. `assigned` are the partitions that it may use, `revoking` those that it still has to give up, and
    `since` the epochs in which it received all of these. `classic` is set if the member uses the classic
    protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    classic: ClassicProtocols | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NO_PARTITIONS
    revoking: Assignment = NO_PARTITIONS
    since: AssignmentEpochs = NO_EPOCHS

    @property
    def size(self) -> int:
        """The bytes of its names and protocols, for `group.max.bytes`."""
        names = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host)
        size = bytes_of([text for text in (*names, self.regex, self.assignor) if text])
        size += bytes_of(self.topics)
        if self.classic is not None:
            size += sum(len(name.encode()) + len(metadata) for name, metadata in self.classic.protocols)
        return size

    def session_ms(self, timeout_ms: int) -> int:
        """Return the timeout of its session. A member of the classic protocol states its own."""
        return timeout_ms if self.classic is None else self.classic.session_timeout_ms

    def without_assignment(self) -> "ConsumerMember":
        return replace(
            self,
            epoch=JOINS,
            previous_epoch=-1,
            state=MemberState.STABLE,
            assigned=NO_PARTITIONS,
            revoking=NO_PARTITIONS,
            since=NO_EPOCHS,
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def had_in(self, epoch: int, topic_id: bytes, partition: int) -> bool:
        """Return whether the member has the partition, and had it in an earlier epoch."""
        return any(partition in some.get(topic_id, ()) for some in (self.assigned, self.revoking)) and (
            epoch >= epoch_of(self.since, topic_id, partition)
        )

    def moved(
        self,
        state: MemberState,
        epoch: int,
        assigned: Assignment,
        since: AssignmentEpochs,
        revoking: Assignment = NO_PARTITIONS,
    ) -> "ConsumerMember":
        """Return the member in its next state. It keeps its epoch as the previous one."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
            since=since,
        )


class ConsumerTimers(MemberTimers):
    """`rebalance`: the member does not revoke its partitions. `rejoin` and `sync`: a member of the classic
    protocol does not send JoinGroup or SyncGroup.
    """

    __slots__ = ("rebalance", "rejoin", "sync")

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id, member_id)
        self.rebalance, self.rejoin, self.sync = (
            GroupTimer(TimerKind.MEMBER, group_id, member_id) for _ in range(3)
        )

    def __iter__(self) -> Iterator[GroupTimer]:
        return iter((self.session, self.rebalance, self.rejoin, self.sync))


class ResolvedExpression(NamedTuple):
    """The topics that match a subscribed regular expression. `version` is that of the metadata."""

    topics: frozenset[str]
    version: int
    wall_ms: int
