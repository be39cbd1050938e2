"""A share group: its members, their target and current assignments, and its epochs. (Kafka: ShareGroup)

Used by the transitions of this package.
"""

from enum import Enum
from operator import is_
from typing import Final, Self

from broker.common.errors import ErrorCode
from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.messages import SHARE, CommitRequest, Record
from broker.coordinator.group.modern_group import MemberTimers, PartitionGroup
from broker.coordinator.group.records import GroupKeys, KeyType, ModernKey
from broker.coordinator.group.share import records
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions

SHARE_PROTOCOL_TYPE: Final = "share"


class ShareGroupState(Enum):
    """States by the names that ShareGroupDescribe and ListGroups use."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(PartitionGroup[ShareMember, MemberTimers]):
    """A share group, of which several members can have the same partition.

    `states` are the share partitions that have a state: only those are assigned, and a change of them begins
    an epoch. `offsets` are those of an earlier group with this name
    that were committed in a transaction; a share group has none.
    """

    type = SHARE
    protocol_type = SHARE_PROTOCOL_TYPE
    keys = GroupKeys(
        KeyType.SHARE_GROUP,
        KeyType.SHARE_MEMBER,
        KeyType.SHARE_TARGET,
        KeyType.SHARE_TARGET_OF_MEMBER,
        KeyType.SHARE_CURRENT,
        KeyType.SHARE_STATES,
    )

    __slots__ = ("_checked", "states")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StatePartitions()
        self._checked: tuple[object, ...] = ()

    def copy(self) -> Self:
        other = super().copy()
        other.states = self.states
        return other

    def current_state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: only on request, as in Kafka."""
        return False

    def new_timers(self, member_id: str) -> MemberTimers:
        return MemberTimers(self.group_id, member_id)

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
        return len(facts) == len(self._checked) and all(map(is_, facts, self._checked))

    def mark_checked(self, topics: Topics) -> None:
        self._checked = self._facts(topics)

    def check_commit(self, _request: CommitRequest, _topics: Topics) -> ErrorCode:
        """Refuse an OffsetCommit: a share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(self, _request: CommitRequest, _topics: Topics) -> ErrorCode:
        """Refuse a TxnOffsetCommit."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def _facts(self, topics: Topics) -> tuple[object, ...]:
        return topics, self.subscriptions, self.states, self.targets

    # Records

    def member_record(self, member: ShareMember) -> Steps[Record]:
        return records.member_record(self.group_id, member)

    def current_record(self, member: ShareMember) -> Steps[Record]:
        return records.current_record(self.group_id, member)

    def epoch_record(self) -> Record:
        return records.epoch_record(self.group_id, self.epoch, self.metadata_hash)

    def replay_own(self, key: ModernKey, value: bytes | None) -> None:
        name = key.name
        known = self.members.get(name, ShareMember(name))
        match key.type:
            case KeyType.SHARE_STATES:
                self.states = StatePartitions() if value is None else records.decode_states(value)
            case _ if value is None:
                pass
            case KeyType.SHARE_GROUP:
                self.set_epoch(*records.decode_epoch(value))
            case KeyType.SHARE_MEMBER:
                self.members[name] = records.decode_member(known, value)
            case KeyType.SHARE_CURRENT:
                self.members[name] = records.decode_current(known, value)
            case _:
                pass
