"""A share group: its members, their target and current assignments, and its epochs. (Kafka: ShareGroup,
ShareGroupMember)

Used by the transitions of this package.
"""

from enum import Enum
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS, Assignment, Topics
from broker.coordinator.group.messages import CommitRequest
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from broker.coordinator.group.subscribers import bytes_of
from broker.coordinator.group.timers import GroupTimer, TimerKind

LEAVES: Final = -1
"""The epoch with which a member leaves."""

JOINS: Final = 0
"""The epoch with which a member joins."""

STABLE: Final = 0
"""The only state of a member in the records: it gives up partitions without being asked."""


class ShareMember(msgspec.Struct, frozen=True):
    """A member and its current assignment. `topics` are the subscribed names, sorted."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = JOINS
    previous_epoch: int = -1
    assigned: Assignment = NO_PARTITIONS

    @property
    def size(self) -> int:
        """The bytes of its names, for `group.max.bytes`."""
        texts = (self.member_id, self.rack_id, self.client_id, self.client_host)
        return bytes_of([text for text in texts if text]) + bytes_of(self.topics)

    def without_assignment(self) -> "ShareMember":
        return replace(self, epoch=JOINS, previous_epoch=-1, assigned=NO_PARTITIONS)

    def moved(self, epoch: int, assigned: Assignment) -> "ShareMember":
        """Return the member with the assignment of this epoch. It keeps its epoch as the previous one."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)


SHARE_PROTOCOL_TYPE: Final = "share"


class ShareGroupState(Enum):
    """States by the names that ShareGroupDescribe and ListGroups use."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, GroupTimer]):
    """A share group, of which several members can have the same partition.

    `states` are the share partitions that have a state: only those are assigned, and a change of them begins
    an epoch. `timers` are the sessions by member id. `offsets` are those of an earlier group with this name
    that were committed in a transaction; a share group has none.
    """

    __slots__ = ("_checked", "states")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StatePartitions()
        self._checked: tuple[object, ...] = ()

    def copy(self) -> Self:
        other = super().copy()
        other.states = self.states
        return other

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: only on request, as in Kafka."""
        return False

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

    def timer_of(self, member_id: str) -> GroupTimer:
        """Return the timer of the member's session."""
        timer = self.timers.get(member_id)
        if timer is None:
            timer = self.timers[member_id] = GroupTimer(TimerKind.SHARE_SESSION, self.group_id, member_id)
        return timer

    def assignable(self, topics: Topics) -> Steps[dict[bytes, frozenset[int]]]:
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
            yield
        return found

    def without_state(self, topics: Topics) -> Steps[dict[bytes, NamedPartitions]]:
        """Return the partitions of subscribed topics whose state is neither there nor being initialized.

        A topic whose states are being deleted has to wait until they are.
        """
        missing = {}
        states = self.states
        for name in (yield from sorted_in_steps(self.subscribed)):
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

    def is_assignment_outdated(self, topics: Topics) -> Steps[bool]:
        """Return whether the targets have other partitions than those that are assignable."""
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                known = assigned.get(topic_id)
                assigned[topic_id] = partitions if known is None else known | partitions
                yield
        return assigned != (yield from self.assignable(topics))

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
