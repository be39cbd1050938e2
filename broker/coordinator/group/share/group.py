"""A share group: its members, their target and current assignments, and its epochs. (Kafka: ModernGroup,
ShareGroup)

Used by the transitions of this package. Members, assignments and the partitions with states are immutable and
replaced, so that `copy` keeps the state before a call at the cost of its dictionaries.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.steps import Pace, Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment, Topics
from broker.coordinator.group.messages import CommitRequest, Offsets
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from broker.coordinator.group.subscribers import Subscriptions
from broker.coordinator.group.timers import Kind, Timer

NO_EPOCH: Final = -1
"""The epoch of the target assignment before the first one."""

SHARE_PROTOCOL_TYPE: Final = "share"


class ShareGroupState(Enum):
    """States by the names that ShareGroupDescribe and ListGroups use."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    """A share group.

    `epoch` increases with each change of members, subscriptions, topics or partitions with a state;
    `target_epoch` is the epoch that `targets` were computed for, at `assigned_ms` (monotonic)
    in a large group. Several members can have the same partition.
    `subscribers` has the subscriptions, and `revision` increases with each call that changes the group.
    `states` are the share partitions that have a state: only those are assigned. `known_topics` are the
    topics at the last comparison with `metadata_hash`. `timers` are the sessions by member id; they belong to
    the coordinator and are not part of a copy's state. `offsets` are those of an earlier group with this
    name that were committed in a transaction; a share group has none.
    """

    __slots__ = (
        "_checked",
        "assigned_ms",
        "epoch",
        "group_id",
        "known_topics",
        "members",
        "metadata_hash",
        "offsets",
        "revision",
        "size",
        "states",
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
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.states = StatePartitions()
        self.known_topics: Topics | None = None
        self.subscribers = Subscriptions()
        self.size = 0
        self.revision = 0
        self.timers: dict[str, Timer] = {}
        self.offsets: Offsets = {}
        self._checked: tuple[object, ...] = ()

    def copy(self) -> "ShareGroup":
        """Return the group as it is now, to be restored if the records of a call cannot be written."""
        other = ShareGroup(self.group_id)
        other.epoch, other.target_epoch = self.epoch, self.target_epoch
        other.assigned_ms = self.assigned_ms
        other.metadata_hash, other.size = self.metadata_hash, self.size
        other.members, other.targets = dict(self.members), dict(self.targets)
        other.states, other.known_topics = self.states, self.known_topics
        other.subscribers, other.revision = self.subscribers.copy(), self.revision
        other.timers, other.offsets = self.timers, self.offsets
        return other

    def adopt(self, other: object) -> None:
        """Take over the state of a copy that has been changed."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_settled(self) -> bool:
        """Whether the subscriptions are known: always, as each member states its topics."""
        return True

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: only on request, as in Kafka."""
        return False

    @property
    def empty_since_ms(self) -> None:
        return None

    @property
    def subscribed(self) -> Mapping[str, int]:
        """The number of subscriptions by topic name."""
        return self.subscribers.topics

    @property
    def subscriptions(self) -> object:
        """Identifies the present subscriptions, for `SubscribedTopics`."""
        return self.subscribers.version

    def member(self, member_id: str) -> ShareMember:
        """Return a member. Raises ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def put(self, member: ShareMember) -> ShareMember:
        """Add a member, or replace the one of the same id. Return it with the names that the group holds."""
        before = self.members.get(member.member_id)
        if before is None or before.topics is not member.topics:
            if before is not None:
                self.subscribers.remove(before.topics, None)
            names = self.subscribers.add(member.topics, None, ())
            if names is not member.topics:
                member = replace(member, topics=names)
        self.size += member.size - (0 if before is None else before.size)
        self.members[member.member_id] = member
        return member

    def remove(self, member_id: str) -> None:
        """Remove a member with its assignments."""
        member = self.members.pop(member_id)
        self.subscribers.remove(member.topics, None)
        self.size -= member.size
        self.targets.pop(member_id, None)

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NO_PARTITIONS)

    def timer_of(self, member_id: str) -> Timer:
        """Return the timer of the member's session."""
        timer = self.timers.get(member_id)
        if timer is None:
            timer = self.timers[member_id] = Timer(Kind.SHARE_SESSION, self.group_id, member_id)
        return timer

    def assignable(self, topics: Topics, pace: Pace) -> Steps[dict[bytes, frozenset[int]]]:
        """Return the partitions of subscribed topics that exist and have a state."""
        found = {}
        initialized = self.states.initialized
        for name in self.subscribed:
            topic = topics.get(name)
            known = None if topic is None else initialized.get(topic.topic_id)
            if topic is not None and known is not None:
                existing = known.partitions
                if len(existing) != topic.partitions:
                    existing = frozenset(index for index in existing if index < topic.partitions)
                if existing:
                    found[topic.topic_id] = existing
            if pace.spent():
                yield
        return found

    def without_state(self, topics: Topics, pace: Pace) -> Steps[dict[bytes, NamedPartitions]]:
        """Return the partitions of subscribed topics whose state is neither there nor being initialized.

        A topic whose states are being deleted has to wait until they are.
        """
        missing = {}
        states = self.states
        for name in (yield from sorted_in_steps(self.subscribed, pace)):
            if pace.spent():
                yield
            topic = topics.get(name)
            if topic is None or topic.topic_id in states.deleting:
                continue
            known = [some[topic.topic_id] for some in states.known if topic.topic_id in some]
            if any(len(each.partitions) >= topic.partitions for each in known):
                continue
            wanted = frozenset(range(topic.partitions)).difference(*(each.partitions for each in known))
            if wanted:
                missing[topic.topic_id] = NamedPartitions(name, wanted)
        return missing

    def is_assignment_outdated(self, topics: Topics, pace: Pace) -> Steps[bool]:
        """Return whether the targets have other partitions than those that are assignable."""
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                known = assigned.get(topic_id)
                assigned[topic_id] = partitions if known is None else known | partitions
                if pace.spent():
                    yield
        return assigned != (yield from self.assignable(topics, pace))

    def is_checked(self, topics: Topics) -> bool:
        """Return whether nothing has changed since `mark_checked` on which states and targets depend."""
        facts = self._facts(topics)
        return len(facts) == len(self._checked) and all(map(_is, facts, self._checked))

    def mark_checked(self, topics: Topics) -> None:
        self._checked = self._facts(topics)

    def check_commit(self, _request: CommitRequest) -> ErrorCode:
        """Refuse an OffsetCommit: a share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(self, _request: CommitRequest) -> ErrorCode:
        """Refuse a TxnOffsetCommit."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def _facts(self, topics: Topics) -> tuple[object, ...]:
        return topics, self.subscriptions, self.states, self.targets


def _is(some: object, other: object) -> bool:
    return some is other
