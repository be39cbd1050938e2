"""Committed offsets of a group: commit, delete, expire.

Called by `coordinator`. Independent of the group's type. (Kafka: OffsetMetadataManager.)
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from broker.errors import BrokerBug, ErrorCode
from broker.groups.group import Group, State
from broker.groups.messages import (
    CommitReply,
    CommitRequest,
    CommittedOffset,
    OffsetDeleteReply,
    OffsetToCommit,
    Token,
)
from broker.groups.rebalance import start_session
from broker.groups.records import encode_offset_key, encode_offset_value
from broker.groups.subscriptions import SubscribedTopics
from broker.groups.transition import Transition


def commit(transition: Transition, group: Group, request: CommitRequest, token: Token) -> None:
    """Commit or reject each offset separately, and restart the session of a committing member."""
    error = _check_commit(group, request)
    if error:
        transition.reply(token, CommitReply((error,) * len(request.offsets)))
        return
    member = group.members.get(request.member_id)
    if member is not None:
        start_session(transition, member)
    expire_ms = None if request.retention_ms == -1 else transition.wall_ms + request.retention_ms
    errors = tuple(_commit_one(transition, group, one, expire_ms) for one in request.offsets)
    transition.reply(token, CommitReply(errors))


def commit_in_transaction(
    transition: Transition, group: Group | None, request: CommitRequest, token: Token
) -> None:
    """Reject each offset separately, or write it as one of a transaction."""
    error = ErrorCode.NONE if group is None else _check_transactional_commit(group, request)
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


def _check_transactional_commit(group: Group, request: CommitRequest) -> ErrorCode:
    """Check the member, which older clients do not state (KIP-447)."""
    generation_id = request.generation_id
    if generation_id < 0 and (
        group.state is State.EMPTY or (not request.member_id and request.instance_id is None)
    ):
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.instance_id)
    if error:
        return error
    return ErrorCode.NONE if generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION


def _check_commit(group: Group, request: CommitRequest) -> ErrorCode:
    """Check the request. Only an empty group accepts commits from clients that are not members."""
    generation_id = request.generation_id
    if generation_id < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is State.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _commit_one(
    transition: Transition, group: Group, one: OffsetToCommit, expire_ms: int | None
) -> ErrorCode:
    metadata = one.metadata or ""
    if len(metadata) > transition.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(one.offset, one.leader_epoch, metadata, transition.wall_ms, expire_ms)
    transition.put_offset(group.group_id, group.offsets, one.topic, one.partition, committed)
    return ErrorCode.NONE


def delete(
    transition: Transition,
    group: Group,
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


def check_delete(group: Group) -> ErrorCode:
    """Reject groups with members that are not consumer groups: their subscriptions are unknown."""
    return ErrorCode.NON_EMPTY_GROUP if group.members and not group.is_consumer_group else ErrorCode.NONE


def _delete_one(
    transition: Transition, group: Group, topic: str, partition: int, subscribed: SubscribedTopics
) -> ErrorCode:
    if group.members and topic in subscribed:
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    transition.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE


def drop(transition: Transition, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    """Remove offsets even if in use: the partitions or the group are deleted."""
    for topic, partition in partitions:
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: Group) -> Iterator[tuple[str, int]]:
    """Yield every partition with a committed offset. Offsets may be dropped and added meanwhile."""
    for topic in list(group.offsets):
        for partition in list(group.offsets.get(topic, ())):
            yield topic, partition


def count_of(group: Group, most: int) -> int:
    """Return the number of committed offsets, or `most` if there are more."""
    count = 0
    for by_partition in group.offsets.values():
        count += len(by_partition)
        if count >= most:
            return most
    return count


def drop_first(transition: Transition, group: Group, count: int) -> None:
    """Remove the first `count` offsets, of a group that is to be deleted."""
    pairs = ((topic, partition) for topic, some in group.offsets.items() for partition in some)
    drop(transition, group, list(islice(pairs, count)))


def any_expired(group: Group, partitions: Iterable[tuple[str, int]], wall_ms: int, retention_ms: int) -> bool:
    """Return whether an offset of these partitions expires if the group no longer consumes its topic."""
    return next(_expired(group, partitions, wall_ms, retention_ms), None) is not None


def expire(
    transition: Transition,
    group: Group,
    partitions: Iterable[tuple[str, int]],
    subscribed: SubscribedTopics | None,
) -> None:
    """Remove the expired offsets of these partitions (KIP-211).

    The retention runs from when the group became empty, or from the commit if a stable group no longer
    consumes the topic or the group never had members. Nothing expires during a rebalance, nor without the
    `subscribed` topics of a group with members.
    """
    if group.state is State.EMPTY:
        subscribed = None
    elif subscribed is None or not (
        group.state is State.STABLE and subscribed.is_known and subscribed.is_of(group)
    ):
        return
    retention_ms = transition.config.offsets_retention_ms
    for topic, partition in _expired(group, partitions, transition.wall_ms, retention_ms):
        if subscribed is None or topic not in subscribed:
            transition.drop_offset(group.group_id, group.offsets, topic, partition)


def _expired(
    group: Group, partitions: Iterable[tuple[str, int]], wall_ms: int, retention_ms: int
) -> Iterator[tuple[str, int]]:
    simple = group.protocol_type is None
    since_ms = group.state_ms if group.state is State.EMPTY and not simple else None
    for topic, partition in partitions:
        committed = group.offsets.get(topic, {}).get(partition)
        if committed is None:
            continue
        kept_since_ms = committed.commit_ms if since_ms is None else since_ms
        if committed.is_expired(wall_ms, retention_ms, kept_since_ms):
            yield topic, partition
