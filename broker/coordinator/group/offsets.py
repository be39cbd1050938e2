"""The committed offsets of groups of all types: committed, fetched, deleted; and the topics of a group.

Those that a transaction commits are pending until its marker, and then count unless a later record has
superseded them. The topics that the members of a classic group
subscribe to are read from their metadata before offsets are deleted or expire. A generation only keeps its
members' metadata: reading 10,000 topics takes 3 ms for each member, and most generations never need them.
Members of the other protocols state their topics. (Kafka: OffsetMetadataManager with its OpenTransactions,
ClassicGroup.computeSubscribedTopics)
"""

import struct
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from broker.common.errors import BrokerBug, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.any_group import AnyGroup
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.groups import Groups
from broker.coordinator.group.messages import (
    CommitReply,
    CommitRequest,
    CommittedOffset,
    Effects,
    Now,
    OffsetDeleteReply,
    Offsets,
    OffsetToCommit,
    Record,
    Token,
)
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.rebalance import start_session
from broker.coordinator.group.records import (
    OffsetKey,
    decode_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.transition import Transition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

_LAST_MS: Final = 2**63 - 1
"""The last time that a record can have."""


class SubscribedTopics:
    """The topics of interest that one generation subscribes to.

    `is_known` is False if any member's metadata cannot be read: the group may then use every topic.
    """

    __slots__ = ("_subscriptions", "_topics")

    def __init__(self, subscriptions: object, topics: set[str] | None) -> None:
        self._subscriptions = subscriptions
        self._topics = topics

    def __contains__(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    @property
    def is_known(self) -> bool:
        return self._topics is not None

    def is_of(self, group: AnyGroup) -> bool:
        """Return whether these are the topics of the group's present generation."""
        return self._subscriptions is group.subscriptions


def subscribed_topics(group: AnyGroup, wanted: Container[str]) -> Steps[SubscribedTopics]:
    """Return which of the `wanted` topics the group's generation subscribes to.

    The result is of the generation at the start.
    """
    if isinstance(group, ModernGroup):
        return SubscribedTopics(group.subscriptions, {topic for topic in group.subscribed if topic in wanted})
    subscriptions = group.subscriptions
    if subscriptions is None:
        return SubscribedTopics(None, None)
    found: set[str] = set()
    try:
        for metadata in subscriptions:
            for topic in topics_of(metadata):
                if topic in wanted:
                    found.add(topic)
                yield
            yield
    except ValueError:
        return SubscribedTopics(subscriptions, None)
    return SubscribedTopics(subscriptions, found)


def topics_of(metadata: bytes) -> Iterator[str]:
    """Yield a consumer's subscribed topics. Raises ValueError for other metadata.

    Reads only the start of ConsumerProtocolSubscription, which all versions share.
    """
    try:
        (count,) = _INT32.unpack_from(metadata, _INT16.size)
        at = _INT16.size + _INT32.size
        if count < 0:
            raise ValueError(f"invalid number of topics {count}")
        for _ in range(count):
            (size,) = _INT16.unpack_from(metadata, at)
            start, at = at + _INT16.size, at + _INT16.size + size
            if size < 0 or at > len(metadata):
                raise ValueError(f"invalid length {size} of a topic at {start}")
            yield metadata[start:at].decode()
    except struct.error as error:
        raise ValueError("the subscription ends early") from error


OFFSETS_AT_ONCE: Final = 64
"""Offsets dropped between two pauses, each of which writes a record."""

READINGS: Final = 2
"""Times that an OffsetDelete reads the topics of a group before it gives up; ours."""

NO_OFFSETS: Final[Mapping[str, Mapping[int, CommittedOffset]]] = {}


class GroupOffsets:
    """The offsets of all groups, which hold them."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._pending = groups.pending_offsets

    def written(self, records: Iterable[Record]) -> None:
        """Let what open transactions have committed for a partition give way to records that were written
        outside transactions: tombstones and later offsets.
        """
        if self._pending.is_empty:
            return
        for key, value in records:
            place = decode_key(key)
            if not isinstance(place, OffsetKey):
                continue
            if value is None:
                self._pending.drop(place)
            else:
                self._pending.supersede(place)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of an open transaction; None: a later one supersedes it. Raises
        UnreadableRecord.
        """
        place = decode_key(key)
        if isinstance(place, OffsetKey):
            self._pending.add(producer_id, place, None if value is None else decode_offset_value(value))

    def commit(self, request: CommitRequest, token: Token, now: Now) -> Effects:
        """Handle an OffsetCommit: commit or reject each offset separately, and restart the session of a
        committing member. The caller checks that the topics exist.
        """
        groups = self._groups
        transition = groups.transition(now)
        group = groups.get(request.group_id)
        if group is None and request.generation_id >= 0:
            transition.reply(token, _without_group(request))
            return transition.effects
        if group is None:
            group = groups.get_or_create(request.group_id)
        _commit(transition, group, request, token)
        if isinstance(group, ClassicGroup):
            groups.discard_if_blank(group)
        return transition.effects

    def commit_in_transaction(self, request: CommitRequest, token: Token, now: Now) -> Effects:
        """Handle a TxnOffsetCommit: reject each offset separately, or write it as one of the transaction. It
        is pending once the records are written.
        """
        transition = self._groups.transition(now)
        group = self._groups.get(request.group_id)
        if group is None and request.generation_id >= 0:
            transition.reply(token, _without_group(request))
        else:
            _commit_in_transaction(transition, group, request, token)
        return transition.effects

    def end_transaction(
        self,
        producer_id: int,
        is_wanted: Callable[[str], bool],
        later: Iterable[Effects] = (),
        *,
        is_commit: bool,
    ) -> None:
        """Apply the marker of a transaction to the groups that are wanted. `later` are calls that have been
        made, and whose records follow the marker: what they have changed stays.
        """
        ended = self._pending.end(producer_id, is_wanted, is_commit=is_commit)
        changed: dict[bytes, Effects] = {}
        for effects in later if ended else ():
            for key, _ in effects.records:
                changed.setdefault(key, effects)
        for place, committed in ended:
            where = place.group_id, place.topic, place.partition
            changed_by = changed.get(encode_offset_key(*where)) if changed else None
            if changed_by is not None:
                _set_previous(changed_by, where, committed)
                continue
            group = self._groups.get_or_create(place.group_id)
            group.offsets.setdefault(place.topic, {})[place.partition] = committed

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has committed an offset of this partition."""
        return self._pending.has(group_id, topic, partition)

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the offsets by topic and partition: the group's own mapping, not a copy.

        Empty for a missing group.
        """
        group = self._groups.get(group_id)
        return NO_OFFSETS if group is None else group.offsets

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return the error of an OffsetFetch that states a member; other groups do not check it."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            return group.check_fetch(member_id, epoch)
        return ErrorCode.NONE

    def check_delete(self, group_id: str) -> ErrorCode:
        """Return the top-level error of an OffsetDelete, before any partition is checked."""
        if not group_id:  # it may exist, because offsets can be committed to it
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if group is None else _check_delete(group)

    def subscribed_topics(
        self, group_id: str, wanted: Container[str], known: SubscribedTopics | None = None
    ) -> Steps[SubscribedTopics]:
        """Return which of the `wanted` topics the group consumes.

        `known` is an earlier result, which is returned if no generation has begun since. Reads the topics
        again if a generation begins meanwhile; a group that begins another one before they are read is taken
        to consume every topic.
        """
        get = self._groups.get
        for _ in range(READINGS):
            group = get(group_id)
            if group is None:
                break
            if known is not None and known.is_of(group):
                return known
            subscribed = yield from subscribed_topics(group, wanted)
            if get(group_id) is group and subscribed.is_of(group):
                return subscribed
        group = get(group_id)
        return SubscribedTopics(None if group is None else group.subscriptions, None)

    def delete(
        self,
        group_id: str,
        partitions: Sequence[tuple[str, int]],
        subscribed: SubscribedTopics,
        token: Token,
        now: Now,
    ) -> Effects:
        """Handle an OffsetDelete: delete offsets of topics that no member consumes. No pause has been since
        `subscribed_topics` returned `subscribed`.
        """
        transition = self._groups.transition(now)
        group = self._groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else _check_delete(group)
        if group is None or error:
            transition.reply(token, OffsetDeleteReply(error))
            return transition.effects
        if not subscribed.is_of(group):
            raise BrokerBug(f"group {group_id}: the subscribed topics are of an earlier generation")
        errors = tuple(
            _delete_one(transition, group, topic, partition, subscribed) for topic, partition in partitions
        )
        transition.reply(token, OffsetDeleteReply(ErrorCode.NONE, errors))
        return transition.effects

    def committed_in(self, topics: Topics) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """Yield in batches the partitions of `topics` for which groups have committed offsets, and those for
        which open transactions have.

        An offset with another topic id is of another topic with the name. An empty batch is a pause after
        groups and topics without such commits. Skips groups created meanwhile.
        """
        for group_id in list(self._groups.by_id):
            committed = self.committed(group_id)
            found: list[tuple[str, int]] = []
            for name in list(topics if len(topics) < len(committed) else committed):
                if name in committed and name in topics:
                    topic = topics[name]
                    found += [
                        (name, each)
                        for each, offset in committed[name].items()
                        if each < topic.partitions and offset.may_be_of(topic.topic_id)
                    ]
                while len(found) >= OFFSETS_AT_ONCE:
                    yield group_id, found[:OFFSETS_AT_ONCE]
                    del found[:OFFSETS_AT_ONCE]
                yield group_id, []
            yield group_id, found
        for group_id in self._pending.group_ids():
            places = self._pending.partitions_of(group_id)
            while some := list(islice(places, OFFSETS_AT_ONCE)):
                yield (
                    group_id,
                    [
                        (name, each)
                        for name, each in some
                        if name in topics
                        and self._pending.may_be_of(OffsetKey(group_id, name, each), topics[name].topic_id)
                    ],
                )

    def partitions_deleted(
        self, group_id: str, partitions: Collection[tuple[str, int]], topics: Topics, now: Now
    ) -> Effects:
        """Remove the group's offsets for partitions of deleted topics, which are among `topics`.

        A tombstone removes all that is committed for a partition: there is none where something has been
        committed meanwhile for another topic with the name. What is left of the deleted one, no OffsetFetch
        returns.
        """
        transition = self._groups.transition(now)
        group = self._groups.get(group_id)
        offsets: Offsets = {} if group is None else group.offsets
        for topic, partition in partitions:
            found = [*self._pending.of(OffsetKey(group_id, topic, partition))]
            committed = offsets.get(topic, {}).get(partition)
            if committed is not None:
                found.append(committed)
            if all(each.may_be_of(topics[topic].topic_id) for each in found):
                transition.drop_offset(group_id, offsets, topic, partition)
        return transition.effects

    def count(self, group_id: str, most: int) -> int:
        """Return the number of the group's offsets, those of open transactions too, or `most` if there are
        more.
        """
        count = self._pending.count(group_id)
        for by_partition in self.committed(group_id).values():
            if count >= most:
                break
            count += len(by_partition)
        return min(count, most)


def _set_previous(effects: Effects, where: tuple[str, str, int], committed: CommittedOffset) -> None:
    """Let a rollback of the call restore this offset."""
    others = [each for each in effects.overwritten if each[:3] != where]
    effects.overwritten[:] = [(*where, committed), *others]


def drop_some(transition: Transition, group: AnyGroup) -> None:
    """Remove the first OFFSETS_AT_ONCE offsets, then those of open transactions, of a group that is to be
    deleted.
    """
    pairs = ((topic, partition) for topic, some in group.offsets.items() for partition in some)
    pending = transition.pending_offsets.partitions_of(group.group_id)
    for topic, partition in dict.fromkeys(islice(chain(pairs, pending), OFFSETS_AT_ONCE)):
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def drop_all(transition: Transition, group: AnyGroup) -> None:
    """Remove all offsets, with those of open transactions, of a group that is deleted."""
    pending = transition.pending_offsets.partitions_of(group.group_id)
    for topic, partition in dict.fromkeys((*partitions_of(group), *pending)):
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: AnyGroup) -> Iterator[tuple[str, int]]:
    """Yield every partition with a committed offset. Offsets may be dropped and added meanwhile."""
    for topic in list(group.offsets):
        for partition in list(group.offsets.get(topic, ())):
            yield topic, partition


def _without_group(request: CommitRequest) -> CommitReply:
    """Return the reply to a member of a group that does not exist."""
    error = ErrorCode.GROUP_ID_NOT_FOUND if request.knows_missing_groups else ErrorCode.ILLEGAL_GENERATION
    return CommitReply((error,) * len(request.offsets))


def _commit(transition: Transition, group: AnyGroup, request: CommitRequest, token: Token) -> None:
    error = group.check_commit(request, transition.topics.by_name)
    if error:
        transition.reply(token, CommitReply((error,) * len(request.offsets)))
        return
    if isinstance(group, ClassicGroup) and request.member_id in group.members:
        start_session(transition, group.members[request.member_id])
    expire_ms = None
    if request.retention_ms != -1:
        expire_ms = min(transition.wall_ms + request.retention_ms, _LAST_MS)
    errors = tuple(_commit_one(transition, group, one, expire_ms) for one in request.offsets)
    transition.reply(token, CommitReply(errors))


def _commit_one(
    transition: Transition, group: AnyGroup, one: OffsetToCommit, expire_ms: int | None
) -> ErrorCode:
    committed = _committed(transition, one, expire_ms)
    if committed is None:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    transition.put_offset(group.group_id, group.offsets, one.topic, one.partition, committed)
    return ErrorCode.NONE


def _commit_in_transaction(
    transition: Transition, group: AnyGroup | None, request: CommitRequest, token: Token
) -> None:
    topics = transition.topics.by_name
    refusal = ErrorCode.NONE if group is None else group.check_transactional_commit(request, topics)

    def commit(one: OffsetToCommit) -> ErrorCode:
        committed = None if refusal else _committed(transition, one)
        if committed is None:
            return refusal or ErrorCode.OFFSET_METADATA_TOO_LARGE
        key = encode_offset_key(request.group_id, one.topic, one.partition)
        transition.record((key, encode_offset_value(committed)))
        return ErrorCode.NONE

    transition.reply(token, CommitReply(tuple(map(commit, request.offsets))))


def _committed(
    transition: Transition, one: OffsetToCommit, expire_ms: int | None = None
) -> CommittedOffset | None:
    """Return the offset, or None if its metadata is too large."""
    metadata = one.metadata or ""
    if len(metadata) > transition.config.offset_metadata_max_bytes:
        return None
    wall_ms = transition.wall_ms
    return CommittedOffset(one.offset, one.leader_epoch, metadata, wall_ms, expire_ms, one.topic_id)


def _check_delete(group: AnyGroup) -> ErrorCode:
    """Reject share groups, and classic groups with members of another type than consumers: their
    subscriptions are unknown.
    """
    if isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_unknown = isinstance(group, ClassicGroup) and group.members and not group.is_consumer_group
    return ErrorCode.NON_EMPTY_GROUP if is_unknown else ErrorCode.NONE


def _delete_one(
    transition: Transition, group: AnyGroup, topic: str, partition: int, subscribed: SubscribedTopics
) -> ErrorCode:
    if group.members and topic in subscribed:
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    transition.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE
