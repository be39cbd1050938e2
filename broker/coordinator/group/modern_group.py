"""What consumer groups and share groups have in common: members of immutable state, epochs, and
the checks of members. (Kafka: ModernGroup)
"""

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.groups import GroupConfig
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment, Topics
from broker.coordinator.group.messages import Offsets
from broker.coordinator.group.subscribers import Subscriptions

NO_EPOCH: Final = -1
"""The epoch of the target assignment before the first one."""


class AnyMember(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    def without_assignment(self) -> Self: ...


Member = TypeVar("Member", bound=AnyMember)
TimersOfMember = TypeVar("TimersOfMember")


class ModernGroup(Generic[Member, TimersOfMember]):
    """A group whose members state their topics, and reach the target assignment with their heartbeats.

    Members and assignments are replaced and never modified, so that `copy` keeps the state before a call at
    the cost of its dictionaries. `epoch` increases with each change of members, subscriptions or topics;
    `target_epoch` is the epoch that `targets` were computed for, at `assigned_ms` (monotonic) in a large
    group. `subscribers` has the subscriptions, and `revision` increases with each call that changes the
    group. `known_topics` are the topics at the last comparison with `metadata_hash`. `timers` belong to the
    coordinator and are not part of a copy's state.
    """

    __slots__ = (
        "assigned_ms",
        "epoch",
        "group_id",
        "known_topics",
        "members",
        "metadata_hash",
        "offsets",
        "revision",
        "size",
        "subscribers",
        "target_epoch",
        "targets",
        "timers",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = NO_EPOCH
        self.assigned_ms: int | None = None
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Assignment] = {}
        self.known_topics: Topics | None = None
        self.subscribers = Subscriptions()
        self.size = 0
        self.revision = 0
        self.timers: dict[str, TimersOfMember] = {}
        self.offsets: Offsets = {}

    def copy(self) -> Self:
        """Return the group as it is now, to be restored if the records of a call cannot be written."""
        other = type(self)(self.group_id)
        other.epoch, other.target_epoch = self.epoch, self.target_epoch
        other.assigned_ms = self.assigned_ms
        other.metadata_hash, other.size = self.metadata_hash, self.size
        other.members, other.targets = dict(self.members), dict(self.targets)
        other.known_topics = self.known_topics
        other.subscribers, other.revision = self.subscribers.copy(), self.revision
        other.timers, other.offsets = self.timers, self.offsets
        return other

    def isolated(self) -> Self:
        """Return a copy with timers of its own, which takes its members' along."""
        other = self.copy()
        other.timers = dict(self.timers)
        return other

    def adopt(self, other: object) -> None:
        """Take over the state of a copy that has been changed."""
        for name in (*ModernGroup.__slots__, *self.__slots__):
            setattr(self, name, getattr(other, name))

    def unassign(self, member_id: str) -> None:
        """Forget the assignment that a member has, if there is such a member."""
        member = self.members.get(member_id)
        if member is not None:
            self.members[member_id] = member.without_assignment()

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state, whose value is the name that clients see."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_settled(self) -> bool:
        """Whether the subscriptions are known: always, as each member states its topics."""
        return True

    @property
    def empty_since_ms(self) -> None:
        """The time is not stored, as in Kafka: the retention runs from the commit."""
        return None

    @property
    def subscribed(self) -> Mapping[str, int]:
        """The number of subscriptions by topic name."""
        return self.subscribers.topics

    @property
    def subscriptions(self) -> object:
        """Identifies the present subscriptions, for `SubscribedTopics`."""
        return self.subscribers.version

    def member(self, member_id: str) -> Member:
        """Return a member. Raises ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NO_PARTITIONS)


class DescribedModernGroup(msgspec.Struct, Generic[Member], frozen=True):
    """`targets` are by member id. `error` and `message` are set if the id is not that of such a group."""

    error: ErrorCode
    group_id: str
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[Member, ...] = ()
    targets: Mapping[str, Assignment] = {}
    message: str | None = None


def described(group: ModernGroup[Member, Any], assignor: str) -> DescribedModernGroup[Member]:
    return DescribedModernGroup(
        ErrorCode.NONE,
        group.group_id,
        group.state.value,
        group.epoch,
        group.target_epoch,
        assignor,
        tuple(group.members.values()),
        dict(group.targets),
    )


MAX_TOPICS: Final = 10_000
"""Names that one member subscribes to; our own limit."""


def check_bytes(config: GroupConfig, others: int, before: int, after: int) -> None:
    """Apply `group.max.bytes` to a member that grows from `before` to `after` bytes. `others` are the bytes
    of the other members. Raises ApiError.
    """
    most = config.max_group_bytes
    if after > before and others + after > most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The members of the group have more than {most} bytes."
        )


def refuse_empty(text: str | None, message: str) -> None:
    """Raise ApiError INVALID_REQUEST if a field is there, but blank."""
    if text is not None and not text.strip():
        raise invalid(message)


def invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
