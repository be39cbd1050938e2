"""SyncGroup and Heartbeat: distribution of the leader's assignment, and session renewal.

Called by `coordinator` with an existing group. (Kafka: GroupCoordinator.doSyncGroup, handleHeartbeat.)
"""

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.rebalance import REBALANCING, hand_out_assignments, start_session, sync_reply
from broker.groups.classic.state import State
from broker.groups.classic.stored import record_of
from broker.groups.replies import SyncReply, Token
from broker.groups.requests import SyncRequest
from broker.groups.transition import Transition


def sync(transition: Transition, group: Group, request: SyncRequest, token: Token) -> None:
    """Answer the request, or keep it pending until the leader's assignment arrives."""
    error = _check(group, request)
    if error:
        transition.reply(token, SyncReply(error))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        transition.timers.cancel(group.sync_timer)
    if group.state is State.STABLE:
        transition.reply(token, sync_reply(group, member))
        start_session(transition, member)
        return
    transition.park(group.syncing, member.member_id, token, REBALANCING)
    if member.member_id == group.leader_id:
        assigned = request.assignments
        assignments = {each: bytes(assigned[each]) for each in group.members if each in assigned}
        group.enter(State.STABLE, transition.wall_ms)
        hand_out_assignments(transition, group, assignments)
        transition.record(record_of(group))


def heartbeat(
    transition: Transition, group: Group, generation_id: int, member_id: str, instance_id: str | None
) -> ErrorCode:
    """Restart the session and return NONE, or the error that tells the member what to do next."""
    error = group.check_member(member_id, instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    start_session(transition, group.members[member_id])
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check(group: Group, request: SyncRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differs(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current
