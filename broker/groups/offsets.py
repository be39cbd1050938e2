"""Committed offsets of a group: commit, delete, expire.

Called by `coordinator`. Independent of the group's type. (Kafka: OffsetMetadataManager.)
"""

from collections.abc import Iterable, Sequence

from broker.errors import ErrorCode
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


def delete(transition: Transition, group: Group, partitions: Sequence[tuple[str, int]], token: Token) -> None:
    """Delete offsets of topics that no member consumes."""
    if error := check_delete(group):
        transition.reply(token, OffsetDeleteReply(error))
        return
    errors = tuple(_delete_one(transition, group, topic, partition) for topic, partition in partitions)
    transition.reply(token, OffsetDeleteReply(ErrorCode.NONE, errors))


def check_delete(group: Group) -> ErrorCode:
    """Reject groups with members that are not consumer groups: their subscriptions are unknown."""
    return ErrorCode.NON_EMPTY_GROUP if group.members and not group.is_consumer_group else ErrorCode.NONE


def _delete_one(transition: Transition, group: Group, topic: str, partition: int) -> ErrorCode:
    if group.members and group.consumes(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    transition.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE


def drop(transition: Transition, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    """Remove offsets even if in use: the partitions or the group are deleted."""
    for topic, partition in partitions:
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: Group) -> list[tuple[str, int]]:
    """Return every partition with a committed offset."""
    return [(topic, partition) for topic, by_partition in group.offsets.items() for partition in by_partition]


def expire(transition: Transition, group: Group) -> None:
    """Remove expired offsets (KIP-211).

    The retention runs from when the group became empty, or from the commit if a stable group no longer
    consumes the topic or the group never had members. Nothing expires during a rebalance.
    """
    simple = group.protocol_type is None
    empty = group.state is State.EMPTY
    if not (simple or empty or (group.state is State.STABLE and group.subscriptions is not None)):
        return
    since_ms = group.state_ms if empty and not simple else None
    retention_ms = transition.config.offsets_retention_ms
    for topic, partition in partitions_of(group):
        if not empty and group.consumes(topic):
            continue
        committed = group.offsets[topic][partition]
        kept_since_ms = committed.commit_ms if since_ms is None else since_ms
        if committed.is_expired(transition.wall_ms, retention_ms, kept_since_ms):
            transition.drop_offset(group.group_id, group.offsets, topic, partition)
