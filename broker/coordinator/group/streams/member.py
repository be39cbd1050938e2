"""A member of a streams group. (Kafka: StreamsGroupMember, MemberState, MemberTaskOffsets)"""

from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from broker.coordinator.group.messages import Endpoint
from broker.coordinator.group.modern_group import JOINS, MemberTimers, bytes_of
from broker.coordinator.group.streams.assignor import NO_OFFSETS, TaskOffsets
from broker.coordinator.group.streams.tasks import NO_MEMBER_TASKS, MemberTasks
from broker.coordinator.group.timers import GroupTimer, TimerKind

LEAVES_FOR_NOW: Final = -2
"""The epoch of a static member that has left and keeps its tasks for the session timeout."""


class MemberState(IntEnum):
    """The progress of a member towards its target assignment; the numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


ClientTags = tuple[tuple[str, str], ...]
"""Keys and values, sorted."""


class StreamsMember(msgspec.Struct, frozen=True):
    """A member and its current assignment: one thread of an application instance, whose `process_id` all
    threads of the instance share.

    `assigned` are the tasks that it may run, `revoking` those that it still has to give up.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: ClientTags = ()
    epoch: int = JOINS
    previous_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: MemberTasks = NO_MEMBER_TASKS
    revoking: MemberTasks = NO_MEMBER_TASKS

    topics: ClassVar[tuple[str, ...]] = ()
    regex: ClassVar[None] = None

    @property
    def size(self) -> int:
        """The bytes of its names, for `group.max.bytes`."""
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host)
        size = bytes_of([text for text in (*texts, self.process_id) if text])
        if self.endpoint is not None:
            size += len(self.endpoint.host.encode())
        return size + sum(len(key.encode()) + len(value.encode()) for key, value in self.client_tags)

    def session_ms(self, timeout_ms: int) -> int:
        return timeout_ms

    def without_assignment(self) -> "StreamsMember":
        return replace(
            self,
            epoch=JOINS,
            previous_epoch=JOINS,
            state=MemberState.STABLE,
            assigned=NO_MEMBER_TASKS,
            revoking=NO_MEMBER_TASKS,
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(
        self, state: MemberState, epoch: int, assigned: MemberTasks, revoking: MemberTasks = NO_MEMBER_TASKS
    ) -> "StreamsMember":
        """Return the member in its next state. It keeps its epoch as the previous one."""
        return replace(
            self, state=state, epoch=epoch, previous_epoch=self.epoch, assigned=assigned, revoking=revoking
        )


class StreamsTimers(MemberTimers):
    """`rebalance`: the member does not revoke its tasks."""

    __slots__ = ("rebalance",)

    def __init__(self, group_id: str, member_id: str) -> None:
        super().__init__(group_id, member_id)
        self.rebalance = GroupTimer(TimerKind.MEMBER, group_id, member_id)

    def __iter__(self) -> Iterator[GroupTimer]:
        return iter((self.session, self.rebalance))


class RestoredOffsets(NamedTuple):
    """How far the state of a member's tasks is restored, and how far it goes. It is not stored."""

    offsets: TaskOffsets = NO_OFFSETS
    end_offsets: TaskOffsets = NO_OFFSETS


NOTHING_RESTORED: Final = RestoredOffsets()
