"""A consumer group: its members, their target and current assignments, the owners of its partitions, and its
epochs. (Kafka: ConsumerGroup)

Used by the transitions of this package.
"""

import logging
from collections.abc import Collection
from enum import Enum
from operator import is_
from typing import Final, Self

from broker.common.errors import BrokerBug, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.consumer import records
from broker.coordinator.group.consumer.assignment import Assignment, Topics, overlap
from broker.coordinator.group.consumer.member import ConsumerMember, ConsumerTimers, ResolvedExpression
from broker.coordinator.group.messages import CONSUMER, CommitRequest, Record
from broker.coordinator.group.modern_group import PartitionGroup
from broker.coordinator.group.records import GroupKeys, KeyType, ModernKey, tombstone

logger = logging.getLogger(__name__)

NONE: frozenset[int] = frozenset()


class Owners:
    """The partitions by topic. A set is replaced and never modified, so that a copy costs one dictionary, and
    the partitions of a topic with one member are the set that the member has.
    """

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[bytes, frozenset[int]] = {}

    def copy(self) -> "Owners":
        other = Owners()
        other._by_topic = dict(self._by_topic)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owners) and self._by_topic == other._by_topic

    __hash__ = None  # type: ignore[assignment]

    def add(self, assignment: Assignment) -> None:
        """Add the partitions of a member. Raises BrokerBug if another one has some of them."""
        by_topic = self._by_topic
        for topic_id, partitions in assignment.items():
            known = by_topic.get(topic_id)
            if known is None:
                by_topic[topic_id] = partitions
            elif known.isdisjoint(partitions):
                by_topic[topic_id] = known | partitions
            else:
                raise BrokerBug(
                    f"partitions {sorted(known & partitions)} of {topic_id.hex()} have two owners"
                )

    def remove(self, assignment: Assignment) -> None:
        """Remove the partitions of a member."""
        by_topic = self._by_topic
        for topic_id, partitions in assignment.items():
            known = by_topic.get(topic_id, NONE)
            if len(known) <= len(partitions):
                by_topic.pop(topic_id, None)
            else:
                by_topic[topic_id] = known - partitions

    def free(self, topic_id: bytes, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions that no member has."""
        known = self._by_topic.get(topic_id)
        return partitions if known is None else partitions - known

    def has_any(self, assignment: Assignment) -> bool:
        """Return whether a member has one of the partitions."""
        by_topic = self._by_topic
        return any(
            not partitions.isdisjoint(by_topic.get(topic_id, NONE))
            for topic_id, partitions in assignment.items()
        )


CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class ConsumerGroupState(Enum):
    """States by the names that ConsumerGroupDescribe and ListGroups use."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(PartitionGroup[ConsumerMember, ConsumerTimers]):
    """A consumer group.

    `owners` has the partitions that are assigned or still to be revoked. `expressions` are the subscribed
    regular expressions that have been resolved, at `resolved_ms` (monotonic) against the topics in
    `resolved_topics`.
    """

    type = CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE
    keys = GroupKeys(
        KeyType.GROUP,
        KeyType.MEMBER,
        KeyType.TARGET,
        KeyType.TARGET_OF_MEMBER,
        KeyType.CURRENT,
        KeyType.PARTITIONS,
    )

    __slots__ = ("expressions", "owners", "resolved_ms", "resolved_topics", "static_ids")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_ids: dict[str, str] = {}
        self.owners = Owners()
        self.expressions: dict[str, ResolvedExpression] = {}
        self.resolved_topics: Topics | None = None
        self.resolved_ms: int | None = None

    def copy(self) -> Self:
        other = super().copy()
        other.static_ids, other.owners = dict(self.static_ids), self.owners.copy()
        other.expressions = dict(self.expressions)
        other.resolved_topics, other.resolved_ms = self.resolved_topics, self.resolved_ms
        return other

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: it has neither members nor offsets."""
        return not (self.members or self.offsets)

    def put(self, member: ConsumerMember) -> ConsumerMember:
        before = self.members.get(member.member_id)
        if before is not None:
            self._forget_instance(before)
        member = super().put(member)
        self._own(before, member)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        return member

    def new_timers(self, member_id: str) -> ConsumerTimers:
        return ConsumerTimers(self.group_id, member_id)

    def selected(self, regex: str | None) -> Collection[str]:
        resolved = self.expressions.get(regex) if regex else None
        return resolved.topics if resolved else ()

    def remove(self, member_id: str) -> Steps[None]:
        member = self.members[member_id]
        yield from super().remove(member_id)
        self._own(member, None)
        yield
        self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]

    def set_expression(self, regex: str, resolved: ResolvedExpression) -> None:
        """Replace the topics of a regular expression."""
        known = self.expressions.get(regex)
        self.expressions[regex] = resolved
        if known is None or known.topics != resolved.topics:
            self.subscribers.select(regex, resolved.topics)

    def check_commit(self, request: CommitRequest, topics: Topics) -> ErrorCode:
        """Check an OffsetCommit; only an empty group accepts one from a client that is no member."""
        if request.generation_id < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and not request.knows_member_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._check_commit(member, request, topics)

    def check_transactional_commit(self, request: CommitRequest, topics: Topics) -> ErrorCode:
        """Check a TxnOffsetCommit; one of a producer that states no member is accepted."""
        if request.generation_id < 0 and not self.members:
            return ErrorCode.NONE
        if request.generation_id == -1 and not request.member_id and request.instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._check_commit(member, request, topics)
        return error if not error or request.knows_member_epochs else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check an OffsetFetch, which states a member only if it comes from one."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else self._check_epoch(member, epoch)

    def _check_commit(self, member: ConsumerMember, request: CommitRequest, topics: Topics) -> ErrorCode:
        """Check the epoch of a commit: that of the member, or an earlier one in which it had all of the
        partitions whose offsets it commits.
        """
        epoch = request.generation_id
        is_earlier = epoch < member.epoch and all(
            one.topic in topics and member.had_in(epoch, topics[one.topic].topic_id, one.partition)
            for one in request.offsets
        )
        return ErrorCode.NONE if is_earlier else self._check_epoch(member, epoch)

    def _check_epoch(self, member: ConsumerMember, epoch: int) -> ErrorCode:
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def _own(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Replace the partitions of a member. Those that it has now as before are left alone."""
        had = () if before is None else (before.assigned, before.revoking)
        has = () if after is None else (after.assigned, after.revoking)
        if len(had) == len(has) and all(map(is_, had, has)):
            return
        for assignment in had:
            self.owners.remove(assignment)
        for assignment in has:
            self.owners.add(assignment)

    def current_state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    # Records

    def member_record(self, member: ConsumerMember) -> Steps[Record]:
        return records.member_record(self.group_id, member)

    def current_record(self, member: ConsumerMember) -> Steps[Record]:
        return records.current_record(self.group_id, member)

    def epoch_record(self) -> Record:
        return records.epoch_record(self.group_id, self.epoch, self.metadata_hash)

    def own_tombstones(self) -> list[Record]:
        return [tombstone(KeyType.EXPRESSION, self.group_id, regex) for regex in self.expressions]

    def replay_own(self, key: ModernKey, value: bytes | None) -> None:
        name = key.name
        known = self.members.get(name, ConsumerMember(name))
        match key.type:
            case KeyType.EXPRESSION if value is None:
                self.expressions.pop(name, None)
            case _ if value is None:
                pass
            case KeyType.EXPRESSION:
                self.expressions[name] = records.decode_expression(value)
            case KeyType.GROUP:
                self.set_epoch(*records.decode_epoch(value))
            case KeyType.MEMBER:
                self.members[name] = records.decode_member(known, value)
            case KeyType.CURRENT:
                self.members[name] = records.decode_current(known, value)
            case _:
                pass

    def may_have(self, member: ConsumerMember) -> bool:
        """If damaged records state two owners of a partition, the second member is dropped: its next
        heartbeat is refused with UNKNOWN_MEMBER_ID, and it joins again.
        """
        has = (member.assigned, member.revoking)
        if not overlap(*has) and not any(map(self.owners.has_any, has)):
            return True
        logger.error(
            "group %s: dropping member %s, whose stored partitions belong to another member",
            self.group_id,
            member.member_id,
        )
        return False
