"""Undoes a call whose records could not be written.

Called by `groups`. Overwritten offsets are restored, successful replies become errors, and a group whose
assignment was not written is rebalanced; a consumer or share group is as before the call. (Kafka:
appendGroupMetadataErrorToResponseError, and the rollback of its coordinator runtime)
"""

from typing import Final

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.group import ClassicGroup, ClassicGroupState
from broker.coordinator.group.messages import (
    CommitReply,
    DeleteReply,
    Effects,
    JoinReply,
    ModernHeartbeatReply,
    OffsetDeleteReply,
    Reply,
    ShareStatesReply,
    SyncReply,
)
from broker.coordinator.group.rebalance import hand_out_assignments, prepare
from broker.coordinator.group.records import GroupKey, decode_key
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.transition import Transition

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


def roll_back(transition: Transition, groups: GroupsById, effects: Effects, error: ErrorCode) -> None:
    """Undo `effects` and leave the replies to send instead in `transition`."""
    error = COORDINATOR_ERRORS.get(error, error)
    for group_id, topic, partition, previous in reversed(effects.overwritten):
        offsets = groups.setdefault(group_id, ClassicGroup(group_id)).offsets
        if previous is not None:
            offsets.setdefault(topic, {})[partition] = previous
        else:
            del offsets[topic][partition]
            if not offsets[topic]:
                del offsets[topic]
    for token, reply in effects.replies:
        transition.reply(token, _refusal(reply, error))
    replaced = {group_id for group_id, _ in effects.replaced}
    for key, value in effects.records:
        match decode_key(key):
            case GroupKey(group_id) if group_id in replaced:
                pass
            case GroupKey(group_id) if value is None:
                groups.setdefault(group_id, ClassicGroup(group_id))
            case GroupKey(group_id):
                group = groups[group_id]
                if isinstance(group, ClassicGroup) and group.state is ClassicGroupState.STABLE:
                    hand_out_assignments(transition, group, {}, error)
                    prepare(transition, group)
    for group_id, before in reversed(effects.replaced):
        if isinstance(before, ClassicGroup | ConsumerGroup | ShareGroup):
            groups[group_id] = before
        else:
            groups.pop(group_id, None)


def _refusal(reply: Reply, error: ErrorCode) -> Reply:
    match reply:
        case ModernHeartbeatReply(ErrorCode.NONE):
            return ModernHeartbeatReply(error)
        case ShareStatesReply(ErrorCode.NONE):
            return ShareStatesReply(error)
        case JoinReply(ErrorCode.NONE, member_id):
            return JoinReply(error, member_id)
        case SyncReply(ErrorCode.NONE):
            return SyncReply(error)
        case CommitReply(errors) | OffsetDeleteReply(_, errors) | DeleteReply(errors):
            return replace(reply, errors=tuple(each or error for each in errors))
        case _:
            return reply
