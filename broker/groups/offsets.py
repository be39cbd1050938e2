"""Committed offsets of a group: put, dropped by hand, dropped when they have outlived their use.

Called by `coordinator`. Knows who may commit and what is still in use; a group of any kind keeps them alike.
(Kafka: OffsetMetadataManager.)
"""

from collections.abc import Iterable, Sequence

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.rebalance import start_session
from broker.groups.classic.state import State
from broker.groups.committed import CommittedOffset
from broker.groups.replies import CommitReply, OffsetDeleteReply, Token
from broker.groups.requests import CommitRequest, OffsetToCommit
from broker.groups.transition import Transition


def commit(transition: Transition, group: Group, request: CommitRequest, token: Token) -> None:
    """Each offset is put or refused by itself; a member that commits has been heard of."""
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
    """Only an empty group takes offsets from somebody who is not in it."""
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
    """Drop offsets that nobody in the group consumes."""
    if error := check_delete(group):
        transition.reply(token, OffsetDeleteReply(error))
        return
    errors = tuple(_delete_one(transition, group, topic, partition) for topic, partition in partitions)
    transition.reply(token, OffsetDeleteReply(ErrorCode.NONE, errors))


def check_delete(group: Group) -> ErrorCode:
    """Only of a consumer group it is known what its members consume."""
    return ErrorCode.NON_EMPTY_GROUP if group.members and not group.is_consumer_group else ErrorCode.NONE


def _delete_one(transition: Transition, group: Group, topic: str, partition: int) -> ErrorCode:
    if group.members and group.consumes(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    transition.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE


def drop(transition: Transition, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    """Drop these whoever uses them: the partitions themselves are gone, or the group is."""
    for topic, partition in partitions:
        transition.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: Group) -> list[tuple[str, int]]:
    """Every partition with a committed offset."""
    return [(topic, partition) for topic, by_partition in group.offsets.items() for partition in by_partition]


def expire(transition: Transition, group: Group) -> None:
    """Drop what has outlived the retention (KIP-211): counted from when the group became empty, or from
    the commit where a stable group no longer consumes the topic or where nobody ever joined. In a
    rebalance nothing expires.
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
