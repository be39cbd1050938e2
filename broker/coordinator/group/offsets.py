"""Committed offsets of a group: commit, delete, expire.

Called by `coordinator`. Independent of the group's type. (Kafka: OffsetMetadataManager.)
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from broker.common.errors import BrokerBug, ErrorCode
from broker.coordinator.group.any_group import AnyGroup
from broker.coordinator.group.group import Group
from broker.coordinator.group.messages import (
    CommitReply,
    CommitRequest,
    CommittedOffset,
    OffsetDeleteReply,
    OffsetToCommit,
    Token,
)
from broker.coordinator.group.rebalance import start_session
from broker.coordinator.group.records import encode_offset_key, encode_offset_value
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.subscriptions import SubscribedTopics
from broker.coordinator.group.transition import Transition


def commit(transition: Transition, group: AnyGroup, request: CommitRequest, token: Token) -> None:
    """Commit or reject each offset separately, and restart the session of a committing member."""
    error = group.check_commit(request)
    if error:
        transition.reply(token, CommitReply((error,) * len(request.offsets)))
        return
    if isinstance(group, Group) and request.member_id in group.members:
        start_session(transition, group.members[request.member_id])
    expire_ms = None if request.retention_ms == -1 else transition.wall_ms + request.retention_ms
    errors = tuple(_commit_one(transition, group, one, expire_ms) for one in request.offsets)
    transition.reply(token, CommitReply(errors))


def commit_in_transaction(
    transition: Transition, group: AnyGroup | None, request: CommitRequest, token: Token
) -> None:
    """Reject each offset separately, or write it as one of a transaction."""
    error = ErrorCode.NONE if group is None else group.check_transactional_commit(request)
    errors: list[ErrorCode] = []
    for one in request.offsets:
        metadata = one.metadata or ""
        if not error and len(metadata) > transition.config.offset_metadata_max_bytes:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(error)
        if not error:
            committed = CommittedOffset(one.offset, one.leader_epoch, metadata, transition.wall_ms)
            transition.record(
                (
                    encode_offset_key(request.group_id, one.topic, one.partition),
                    encode_offset_value(committed),
                )
            )
    transition.reply(token, CommitReply(tuple(errors)))


def _commit_one(
    transition: Transition, group: AnyGroup, one: OffsetToCommit, expire_ms: int | None
) -> ErrorCode:
    metadata = one.metadata or ""
    if len(metadata) > transition.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(one.offset, one.leader_epoch, metadata, transition.wall_ms, expire_ms)
    transition.put_offset(group.group_id, group.offsets, one.topic, one.partition, committed)
    return ErrorCode.NONE


def delete(
    transition: Transition,
    group: AnyGroup,
    partitions: Sequence[tuple[str, int]],
    subscribed: SubscribedTopics,
    token: Token,
) -> None:
    """Delete offsets of topics that no member consumes. `subscribed` is of the present generation."""
    if error := check_delete(group):
        transition.reply(token, OffsetDeleteReply(error))
        return
    if not subscribed.is_of(group):
        raise BrokerBug(f"group {group.group_id}: the subscribed topics are of an earlier generation")
    errors = tuple(
        _delete_one(transition, group, topic, partition, subscribed) for topic, partition in partitions
    )
    transition.reply(token, OffsetDeleteReply(ErrorCode.NONE, errors))


def check_delete(group: AnyGroup) -> ErrorCode:
    """Reject share groups, and classic groups with members of another type than consumers: their
    subscriptions are unknown.
    """
    if isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_unknown = isinstance(group, Group) and group.members and not group.is_consumer_group
    return ErrorCode.NON_EMPTY_GROUP if is_unknown else ErrorCode.NONE


def _delete_one(
    transition: Transition, group: AnyGroup, topic: str, partition: int, subscribed: SubscribedTopics
) -> ErrorCode:
    if group.members and topic in subscribed:
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    transition.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE


def drop(transition: Transition, group: AnyGroup, partitions: Iterable[tuple[str, int]]) -> None:
    """Remove offsets even if in use: the partitions or the group are deleted."""
    for topic, partition in partitions:
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: AnyGroup) -> Iterator[tuple[str, int]]:
    """Yield every partition with a committed offset. Offsets may be dropped and added meanwhile."""
    for topic in list(group.offsets):
        for partition in list(group.offsets.get(topic, ())):
            yield topic, partition


def count_of(group: AnyGroup, most: int) -> int:
    """Return the number of committed offsets, or `most` if there are more."""
    count = 0
    for by_partition in group.offsets.values():
        count += len(by_partition)
        if count >= most:
            return most
    return count


def drop_first(transition: Transition, group: AnyGroup, count: int) -> None:
    """Remove the first `count` offsets, of a group that is to be deleted."""
    pairs = ((topic, partition) for topic, some in group.offsets.items() for partition in some)
    drop(transition, group, list(islice(pairs, count)))


def any_expired(
    group: AnyGroup, partitions: Iterable[tuple[str, int]], wall_ms: int, retention_ms: int
) -> bool:
    """Return whether an offset of these partitions expires if the group no longer consumes its topic."""
    return next(_expired(group, partitions, wall_ms, retention_ms), None) is not None


def expire(
    transition: Transition,
    group: AnyGroup,
    partitions: Iterable[tuple[str, int]],
    subscribed: SubscribedTopics | None,
) -> None:
    """Remove the expired offsets of these partitions (KIP-211).

    The retention runs from when a classic group became empty. It runs from the commit if a stable group no
    longer consumes the topic, in a consumer group, or if the group never had members. Nothing expires during
    a rebalance, nor without the `subscribed` topics of a group with members.
    """
    if group.is_empty:
        subscribed = None
    elif subscribed is None or not (group.is_settled and subscribed.is_known and subscribed.is_of(group)):
        return
    retention_ms = transition.config.offsets_retention_ms
    for topic, partition in _expired(group, partitions, transition.wall_ms, retention_ms):
        if subscribed is None or topic not in subscribed:
            transition.drop_offset(group.group_id, group.offsets, topic, partition)


def _expired(
    group: AnyGroup, partitions: Iterable[tuple[str, int]], wall_ms: int, retention_ms: int
) -> Iterator[tuple[str, int]]:
    since_ms = group.empty_since_ms
    for topic, partition in partitions:
        committed = group.offsets.get(topic, {}).get(partition)
        if committed is None:
            continue
        kept_since_ms = committed.commit_ms if since_ms is None else since_ms
        if committed.is_expired(wall_ms, retention_ms, kept_since_ms):
            yield topic, partition
