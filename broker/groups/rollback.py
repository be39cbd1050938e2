"""Rolls back a call whose records could not be written.

Called by `coordinator`. Restores overwritten offsets, replaces successful replies by errors, and rebalances a
group whose assignment was not written. (Kafka: appendGroupMetadataErrorToResponseError, and the rollback of
its coordinator runtime.)
"""

from dataclasses import replace
from typing import Final

from broker.errors import ErrorCode
from broker.groups.group import Group, State
from broker.groups.messages import (
    CommitReply,
    DeleteReply,
    Effects,
    JoinReply,
    OffsetDeleteReply,
    Reply,
    SyncReply,
)
from broker.groups.rebalance import hand_out_assignments, prepare
from broker.groups.records import GroupKey, decode_key
from broker.groups.transition import Transition

COORDINATOR_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Log errors translated to coordinator errors; the others stay unchanged."""


def roll_back(transition: Transition, groups: dict[str, Group], effects: Effects, error: ErrorCode) -> None:
    """Undo `effects` and leave the replies to send instead in `transition`."""
    error = COORDINATOR_ERRORS.get(error, error)
    for group_id, topic, partition, previous in reversed(effects.overwritten):
        offsets = groups.setdefault(group_id, Group(group_id)).offsets
        if previous is not None:
            offsets.setdefault(topic, {})[partition] = previous
        else:
            del offsets[topic][partition]
            if not offsets[topic]:
                del offsets[topic]
    for token, reply in effects.replies:
        transition.reply(token, _refusal(reply, error))
    for key, value in effects.records:
        match decode_key(key):
            case GroupKey(group_id) if value is None:
                groups.setdefault(group_id, Group(group_id))
            case GroupKey(group_id) if groups[group_id].state is State.STABLE:
                hand_out_assignments(transition, groups[group_id], {}, error)
                prepare(transition, groups[group_id])


def _refusal(reply: Reply, error: ErrorCode) -> Reply:
    match reply:
        case JoinReply(ErrorCode.NONE, member_id):
            return JoinReply(error, member_id)
        case SyncReply(ErrorCode.NONE):
            return SyncReply(error)
        case CommitReply(errors) | OffsetDeleteReply(_, errors) | DeleteReply(errors):
            return replace(reply, errors=tuple(each or error for each in errors))
        case _:
            return reply
