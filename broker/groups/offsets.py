"""Committed offsets of a group: put, dropped by hand, dropped when they have outlived their use.

Called by `coordinator`. Knows who may commit and what is still in use; a group of any kind keeps them alike.
(Kafka: OffsetMetadataManager.)
"""

from collections.abc import Iterable, Sequence

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.phase import Phase
from broker.groups.classic.rebalance import start_session
from broker.groups.committed import CommittedOffset
from broker.groups.replies import CommitReply, OffsetDeleteReply, Token
from broker.groups.requests import CommitRequest, OffsetToCommit
from broker.groups.turn import Turn


def commit(turn: Turn, group: Group, request: CommitRequest, token: Token) -> None:
    """Each offset is put or refused by itself; a member that commits has been heard of."""
    error = _check_commit(group, request)
    if error:
        turn.reply(token, CommitReply((error,) * len(request.offsets)))
        return
    member = group.members.get(request.member_id)
    if member is not None:
        start_session(turn, member)
    expire_ms = None if request.retention_ms == -1 else turn.wall_ms + request.retention_ms
    errors = tuple(_commit_one(turn, group, one, expire_ms) for one in request.offsets)
    turn.reply(token, CommitReply(errors))


def _check_commit(group: Group, request: CommitRequest) -> ErrorCode:
    """Only an empty group takes offsets from somebody who is not in it."""
    generation_id = request.generation_id
    if generation_id < 0 and group.phase is Phase.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.phase is Phase.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _commit_one(turn: Turn, group: Group, one: OffsetToCommit, expire_ms: int | None) -> ErrorCode:
    metadata = one.metadata or ""
    if len(metadata) > turn.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(one.offset, one.leader_epoch, metadata, turn.wall_ms, expire_ms)
    turn.put_offset(group.group_id, group.offsets, one.topic, one.partition, committed)
    return ErrorCode.NONE


def delete(turn: Turn, group: Group, partitions: Sequence[tuple[str, int]], token: Token) -> None:
    """Drop offsets that nobody in the group consumes."""
    if error := check_delete(group):
        turn.reply(token, OffsetDeleteReply(error))
        return
    errors = tuple(_delete_one(turn, group, topic, partition) for topic, partition in partitions)
    turn.reply(token, OffsetDeleteReply(ErrorCode.NONE, errors))


def check_delete(group: Group) -> ErrorCode:
    """Only of a consumer group it is known what its members consume."""
    return ErrorCode.NON_EMPTY_GROUP if group.members and not group.is_consumer_group else ErrorCode.NONE


def _delete_one(turn: Turn, group: Group, topic: str, partition: int) -> ErrorCode:
    if group.members and group.consumes(topic):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    turn.drop_offset(group.group_id, group.offsets, topic, partition)
    return ErrorCode.NONE


def drop(turn: Turn, group: Group, partitions: Iterable[tuple[str, int]]) -> None:
    """Drop these whoever uses them: the partitions themselves are gone, or the group is."""
    for topic, partition in partitions:
        turn.drop_offset(group.group_id, group.offsets, topic, partition)


def partitions_of(group: Group) -> list[tuple[str, int]]:
    """Every partition with a committed offset."""
    return [(topic, partition) for topic, by_partition in group.offsets.items() for partition in by_partition]


def expire(turn: Turn, group: Group) -> None:
    """Drop what has outlived the retention (KIP-211): counted from when the group became empty, or from
    the commit where a stable group no longer consumes the topic or where nobody ever joined. In a
    rebalance nothing expires.
    """
    simple = group.protocol_type is None
    empty = group.phase is Phase.EMPTY
    if not (simple or empty or (group.phase is Phase.STABLE and group.subscriptions is not None)):
        return
    since_ms = group.state_ms if empty and not simple else None
    retention_ms = turn.config.offsets_retention_ms
    for topic, partition in partitions_of(group):
        if not empty and group.consumes(topic):
            continue
        committed = group.offsets[topic][partition]
        kept_since_ms = committed.commit_ms if since_ms is None else since_ms
        if committed.is_expired(turn.wall_ms, retention_ms, kept_since_ms):
            turn.drop_offset(group.group_id, group.offsets, topic, partition)
