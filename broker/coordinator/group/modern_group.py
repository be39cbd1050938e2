"""What consumer groups, share groups and streams groups have in common: members with subscriptions, epochs, a
target assignment, timers and records. (Kafka: ModernGroup)

Members and assignments are replaced and never modified. What happens to such a group is in `modern_changes`.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment, Topics, metadata_hash
from broker.coordinator.group.messages import Offsets, Record
from broker.coordinator.group.records import (
    NO_TAGS,
    GroupKeys,
    ModernKey,
    assignment,
    decode_target,
    decode_target_epoch,
    encode_key,
    epoch_value,
    head,
    tombstones,
)
from broker.coordinator.group.timers import GroupTimer, TimerKind

NO_EPOCH: Final = -1
"""The epoch of a target assignment whose record was deleted."""

FIRST_EPOCH: Final = 1
"""The epoch of a new group and of its target. The first member that subscribes begins the next one."""

LEAVES: Final = -1
"""The epoch with which a member leaves."""

JOINS: Final = 0
"""The epoch with which a member joins."""


class AnyMember(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def rack_id(self) -> str | None: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def regex(self) -> str | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def size(self) -> int:
        """The bytes of its names, for `group.max.bytes`."""

    def session_ms(self, timeout_ms: int) -> int:
        """Return the timeout of its session; `timeout_ms` is that of the group."""

    def without_assignment(self) -> Self: ...


Member = TypeVar("Member", bound=AnyMember)


class MemberTimers:
    """The timers of one member id. `session`: it sends no heartbeat."""

    __slots__ = ("session",)

    def __init__(self, group_id: str, member_id: str) -> None:
        self.session = GroupTimer(TimerKind.MEMBER, group_id, member_id)

    def __iter__(self) -> Iterator[GroupTimer]:
        yield self.session


Timers = TypeVar("Timers", bound=MemberTimers)

Target = TypeVar("Target")
"""What a member is to have: partitions by topic id, or tasks."""


Key = tuple[tuple[str, ...], str]
"""The names, sorted, and the regular expression of a subscription, "" without one."""


class SharedSubscription(NamedTuple):
    """`names` are those that members state, `topics` also those that their expression has selected.
    `resolved_bytes` is the size of `topics` if there is an expression.
    """

    names: tuple[str, ...]
    topics: Collection[str]
    members: int
    resolved_bytes: int


class Subscriptions:
    """The subscriptions of a group. Its parts are immutable, so that a copy costs only dictionaries."""

    __slots__ = ("_by_key", "_counts", "_hashed", "resolved_bytes", "version")

    def __init__(self) -> None:
        self._by_key: dict[Key, SharedSubscription] = {}
        self._counts: dict[str, int] = {}
        self._hashed: tuple[Topics, int] | None = None
        self.resolved_bytes = 0
        """The bytes of topics that expressions have selected."""
        self.version = object()
        """A new object after each change."""

    def copy(self) -> "Subscriptions":
        other = Subscriptions()
        other._by_key, other._counts = dict(self._by_key), dict(self._counts)
        other.resolved_bytes, other.version = self.resolved_bytes, self.version
        other._hashed = self._hashed
        return other

    @property
    def topics(self) -> Mapping[str, int]:
        """The number of subscriptions by topic name."""
        return self._counts

    def metadata_hash(self, topics: Topics) -> Steps[int]:
        """Return `metadata_hash` of the topics. It is computed again after a change of them."""
        known = self._hashed
        if known is None or known[0] is not topics:
            known = self._hashed = topics, (yield from metadata_hash(self._counts, topics))
        return known[1]

    def topics_of(self, names: tuple[str, ...], regex: str | None) -> Collection[str]:
        """Return the topics of a subscription that a member has."""
        return self._by_key[names, regex or ""].topics

    def added_bytes(self, names: tuple[str, ...], regex: str | None, selected: Collection[str]) -> int:
        """Return how many bytes of resolved topics a further member with this subscription adds."""
        if not regex or (names, regex) in self._by_key:
            return 0
        return bytes_of(frozenset(selected).union(names))

    def removed_bytes(self, names: tuple[str, ...], regex: str | None) -> int:
        """Return how many bytes of resolved topics go with a member that has this subscription."""
        known = self._by_key[names, regex or ""]
        return known.resolved_bytes if known.members == 1 else 0

    def add(self, names: tuple[str, ...], regex: str | None, selected: Collection[str]) -> tuple[str, ...]:
        """Count a member's subscription, and return the names as they are held. `selected` are the topics of
        the expression.
        """
        key = names, regex or ""
        known = self._by_key.get(key)
        self.version = object()
        if known is not None:
            self._by_key[key] = known._replace(members=known.members + 1)
            return known.names
        self._put(key, 1, selected)
        return names

    def remove(self, names: tuple[str, ...], regex: str | None) -> None:
        """Discount the subscription of a member that leaves or subscribes to something else."""
        key = names, regex or ""
        known = self._by_key[key]
        self.version = object()
        if known.members > 1:
            self._by_key[key] = known._replace(members=known.members - 1)
        else:
            self._drop(key)

    def select(self, regex: str, selected: Collection[str]) -> None:
        """Replace the topics that an expression has selected."""
        for key, known in list(self._by_key.items()):
            if key[1] == regex:
                self.version = object()
                self._drop(key)
                self._put(key, known.members, selected)

    def _put(self, key: Key, members: int, selected: Collection[str]) -> None:
        names, regex = key
        topics: Collection[str] = names
        if selected:
            topics = frozenset(selected).union(names) if names else selected
        size = bytes_of(topics) if regex else 0
        self._by_key[key] = SharedSubscription(names, topics, members, size)
        self.resolved_bytes += size
        counts, before = self._counts, len(self._counts)
        for topic in topics:
            counts[topic] = counts.get(topic, 0) + 1
        if len(counts) > before:
            self._hashed = None

    def _drop(self, key: Key) -> None:
        known = self._by_key.pop(key)
        self.resolved_bytes -= known.resolved_bytes
        counts, before = self._counts, len(self._counts)
        for topic in known.topics:
            if counts[topic] == 1:
                del counts[topic]
            else:
                counts[topic] -= 1
        if len(counts) < before:
            self._hashed = None


def bytes_of(names: Collection[str]) -> int:
    return len("".join(names).encode())


def partition_counts(names: Iterable[str], topics: Topics) -> Iterator[int]:
    """Yield the number of partitions of each topic that exists."""
    for name in names:
        topic = topics.get(name)
        if topic is not None:
            yield topic.partitions


class ModernGroup(Generic[Member, Timers, Target]):
    """A group whose members reach the target assignment with their heartbeats.

    `copy` keeps the state before a call at the cost of its dictionaries. `keys` are the types of its records.
    `epoch` increases with each change of members, subscriptions or topics; `target_epoch` is the epoch that
    `targets` were computed for, at `assigned_ms` (monotonic) in a large group. `subscribers` has the
    subscriptions, and `revision` increases with each call that changes the group. `known_topics` are the
    topics at the last comparison with `metadata_hash`. `timers` belong to the coordinator and are not part of
    a copy's state.
    """

    type: ClassVar[str]
    protocol_type: ClassVar[str]
    keys: ClassVar[GroupKeys]
    no_target: ClassVar[Any]

    __slots__ = (
        "_state",
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
        self.epoch = self.target_epoch = FIRST_EPOCH
        self.assigned_ms: int | None = None
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Target] = {}
        self.known_topics: Topics | None = None
        self.subscribers = Subscriptions()
        self.size = 0
        self.revision = 0
        self.timers: dict[str, Timers] = {}
        self.offsets: Offsets = {}
        self._state: Enum | None = None

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

    @property
    def state(self) -> Enum:
        """The state, whose value is the name that clients see."""
        if self._state is None:
            self._state = self.current_state()
        return self._state

    @abstractmethod
    def current_state(self) -> Enum:
        """Return the state by members and epochs; they say so when these change."""

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
    def subscribed(self) -> Mapping[str, object]:
        """The names of the topics that the members read, each with something of its type of group."""
        return self.subscribers.topics

    @property
    def subscriptions(self) -> object:
        """Identifies the present subscriptions, for `SubscribedTopics`."""
        return self.subscribers.version

    def weights(self, topics: Topics) -> Iterator[int]:
        """Yield, in parts, how much a change of the group goes through: members, topics, partitions. A caller
        can stop early.
        """
        yield len(self.members)
        yield len(self.subscribed)
        yield from partition_counts(self.subscribed, topics)

    def member(self, member_id: str) -> Member:
        """Return a member. Raises ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Target:
        target: Target = self.targets.get(member_id, self.no_target)
        return target

    def topics_of(self, member: Member) -> Collection[str]:
        """Return the topics that a member subscribes to by name and by regular expression."""
        return self.subscribers.topics_of(member.topics, member.regex)

    def timers_of(self, member_id: str) -> Timers:
        timers = self.timers.get(member_id)
        if timers is None:
            timers = self.timers[member_id] = self.new_timers(member_id)
        return timers

    @abstractmethod
    def new_timers(self, member_id: str) -> Timers: ...

    def put(self, member: Member) -> Member:
        """Add a member, or replace the one of the same id. Return it with the names that the group holds."""
        before = self.members.get(member.member_id)
        if before is None or before.topics is not member.topics or before.regex != member.regex:
            if before is not None:
                self.subscribers.remove(before.topics, before.regex)
            names = self.subscribers.add(member.topics, member.regex, self.selected(member.regex))
            if names is not member.topics:
                member = replace(member, topics=names)  # type: ignore[type-var]
        self.size += member.size - (0 if before is None else before.size)
        self.members[member.member_id] = member
        self._state = None
        return member

    def selected(self, _regex: str | None) -> Collection[str]:
        """Return the topics that a regular expression has selected."""
        return ()

    def remove(self, member_id: str) -> Steps[None]:
        """Remove a member with its assignments. Pauses between parts that go through all its topics."""
        member = self.members.pop(member_id)
        self.subscribers.remove(member.topics, member.regex)
        yield
        self.size -= member.size
        self.targets.pop(member_id, None)
        self._state = None

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch, self.metadata_hash = epoch, metadata_hash
        self._state = None

    def set_targets(self, targets: dict[str, Target], epoch: int) -> None:
        self.targets, self.target_epoch = targets, epoch
        self._state = None

    # Records

    @abstractmethod
    def member_record(self, member: Member) -> Steps[Record]: ...

    @abstractmethod
    def current_record(self, member: Member) -> Steps[Record]:
        """Return the record of the member's current assignment."""

    @abstractmethod
    def epoch_record(self) -> Record: ...

    def target_epoch_record(self) -> Record:
        key = ModernKey(self.keys.target, self.group_id)
        return encode_key(key), epoch_value(self.target_epoch) + NO_TAGS

    def target_record(self, member_id: str, target: Target) -> Steps[Record]:
        value = yield from self.encoded_target(target)
        return encode_key(ModernKey(self.keys.target_of_member, self.group_id, member_id)), value

    @abstractmethod
    def encoded_target(self, target: Target) -> Steps[bytes]: ...

    @abstractmethod
    def decoded_target(self, value: bytes) -> Target:
        """Raises UnreadableRecord."""

    def member_tombstones(self, member_id: str) -> list[Record]:
        keys = self.keys
        return tombstones((keys.current, keys.target_of_member, keys.member), self.group_id, member_id)

    def tombstones(self) -> Steps[list[Record]]:
        """Return the tombstones of all records of the group."""
        records: list[Record] = []
        for member_id in self.members:
            records += self.member_tombstones(member_id)
            yield
        records += self.own_tombstones()
        return records + tombstones((self.keys.target, self.keys.rest, self.keys.group), self.group_id)

    def own_tombstones(self) -> list[Record]:
        """Return the tombstones of records that only this type of group has."""
        return []

    def replay(self, key: ModernKey, value: bytes | None) -> None:
        """Apply one record, a tombstone if `value` is None, but not that of the group. A key's last value is
        applied, in any order of the keys: `finish` completes the group. Raises UnreadableRecord.
        """
        name, keys = key.name, self.keys
        if key.type == keys.target:
            self.replay_target_epoch(value)
        elif key.type == keys.target_of_member and value is not None:
            self.targets[name] = self.decoded_target(value)
        elif key.type == keys.target_of_member:
            self.targets.pop(name, None)
        elif key.type == keys.member and value is None:
            self.members.pop(name, None)
        elif key.type == keys.current and value is None:
            member = self.members.get(name)
            if member is not None:
                self.members[name] = member.without_assignment()
        else:
            self.replay_own(key, value)

    def replay_target_epoch(self, value: bytes | None) -> None:
        """Raises UnreadableRecord."""
        self.target_epoch = NO_EPOCH if value is None else decode_target_epoch(value)

    @abstractmethod
    def replay_own(self, key: ModernKey, value: bytes | None) -> None:
        """Apply a record whose value only this type of group has. Raises UnreadableRecord."""

    def may_have(self, _member: Member) -> bool:
        """Return whether a stored member can be a member; otherwise it is dropped."""
        return True

    def finish(self) -> None:
        """Complete a group after all of its records.

        If a member has no target, the records of its last change are incomplete, and the group's next
        heartbeat begins an epoch, unless one has begun already.
        """
        members, targets = self.members, self.targets
        self.members, self.targets = {}, {}
        for member_id, member in members.items():
            if self.may_have(member):
                self.put(member)
                if member_id in targets:
                    self.targets[member_id] = targets[member_id]
        if self.epoch == self.target_epoch and self.targets.keys() != members.keys():
            self.metadata_hash = ~self.metadata_hash  # it differs from that of the topics


class PartitionGroup(ModernGroup[Member, Timers, Assignment]):
    """A group whose members state their topics, and are assigned partitions."""

    no_target = NO_PARTITIONS

    __slots__ = ()

    def encoded_target(self, target: Assignment) -> Steps[bytes]:
        return head() + (yield from assignment(target)) + NO_TAGS

    def decoded_target(self, value: bytes) -> Assignment:
        return decode_target(value)


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


def described(group: PartitionGroup[Member, Any], assignor: str) -> DescribedModernGroup[Member]:
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
