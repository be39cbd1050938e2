"""Handles the requests of members: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Called by `classic` with an existing group. Replies to the request or keeps it pending in the group.
(Kafka: GroupCoordinator.handleJoinGroup, doSyncGroup, handleHeartbeat and handleLeaveGroup; KIP-394 member
ids, KIP-345 static members and batches of leaving members, KIP-814 skipped assignment.)
"""

from collections.abc import Mapping, Sequence
from typing import Final

from broker.common.errors import ErrorCode
from broker.coordinator.group.group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    Protocols,
    protocols_of,
    size_of,
)
from broker.coordinator.group.messages import (
    Buffer,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    SyncReply,
    SyncRequest,
    Token,
)
from broker.coordinator.group.persistence import record_of
from broker.coordinator.group.rebalance import (
    REBALANCING,
    complete_if_all_joined,
    hand_out_assignments,
    join_reply,
    joined_members,
    prepare,
    rebalance,
    remove,
    start_session,
    sync_reply,
)
from broker.coordinator.group.timers import GroupTimer, TimerKind
from broker.coordinator.group.transition import Transition

MAX_PENDING_IDS: Final = 10_000
"""Assigned ids of one group that are not used yet; ours. Each is kept for the session timeout, and all are
freed at once with the group, which takes a millisecond.
"""

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""Maximum wait of a new member's first JoinGroup (Kafka: NewMemberJoinTimeoutMs, a constant there too)."""


def join(
    transition: Transition, group: ClassicGroup, request: JoinRequest, token: Token, new_id: str
) -> None:
    """Handle a JoinGroup. `new_id` is assigned to a member without an id."""
    member_id = request.member_id
    if not (_has_space(transition, group, request) and _has_bytes(transition, group, request)):
        _reject_member(transition, group, member_id)
        transition.reply(token, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        return
    protocols = protocols_of(request.protocols)
    if not group.supports(request.protocol_type, protocols):
        transition.reply(token, JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id:
        _join_without_id(transition, group, request, protocols, token, new_id)
    elif member_id in group.pending_join and request.instance_id is None:
        transition.timers.cancel(group.pending_join.pop(member_id))
        _add(transition, group, request, protocols, token, member_id)
    elif error := group.check_member(member_id, request.instance_id):
        transition.reply(token, JoinReply(error, member_id))
    else:
        _join_again(transition, group, request, protocols, token, group.members[member_id])


def _has_space(transition: Transition, group: ClassicGroup, request: JoinRequest) -> bool:
    """Apply Kafka's group.max.size: during a rebalance the first members to join get the slots.

    Static members keep their slot until their session expires, and a known instance that rejoins without its
    id takes that of its old id. Kafka counts only the members that have joined, so that static members exceed
    its limit, and refuses a known instance of a full group.
    """
    max_size = transition.config.max_size
    member_id = request.member_id
    is_known = member_id in group.members or request.instance_id in group.static_ids
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            if member_id in group.joining:
                return True
            joined = len(group.joining)
            return joined < max_size and (is_known or joined + _absent_static(group) < max_size)
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return is_known or len(group.members) < max_size
        case _:
            return True


def _absent_static(group: ClassicGroup) -> int:
    """Return the number of static members that have not joined the rebalance."""
    return sum(member_id not in group.joining for member_id in group.static_ids.values())


def _has_bytes(transition: Transition, group: ClassicGroup, request: JoinRequest) -> bool:
    """Apply group.max.bytes, before the metadata is copied."""
    member_id = request.member_id or group.static_ids.get(request.instance_id or "")
    before = group.members.get(member_id or "")
    size = group.size - (0 if before is None else before.size)
    return size + size_of(request.protocols) <= transition.config.max_group_bytes


def _reject_member(transition: Transition, group: ClassicGroup, member_id: str) -> None:
    """Remove the member, pending or not, because the group is full."""
    pending = group.pending_join.pop(member_id, None)
    if pending is not None:
        transition.timers.cancel(pending)
    member = group.members.get(member_id)
    if member is not None:
        remove(transition, group, member)
    complete_if_all_joined(transition, group)


def _join_without_id(
    transition: Transition,
    group: ClassicGroup,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    new_id: str,
) -> None:
    instance_id = request.instance_id
    if instance_id is not None and instance_id in group.static_ids:
        old = group.members[group.static_ids[instance_id]]
        _replace_static(transition, group, request, protocols, token, old, new_id)
    elif instance_id is None and request.requires_member_id:
        if len(group.pending_join) >= MAX_PENDING_IDS:
            transition.reply(token, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
            return
        timer = group.pending_join[new_id] = GroupTimer(TimerKind.SESSION, group.group_id, new_id)
        transition.set_timer(timer, request.session_timeout_ms)
        transition.reply(token, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    else:
        _add(transition, group, request, protocols, token, new_id)


def _join_again(
    transition: Transition,
    group: ClassicGroup,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    member: ClassicGroupMember,
) -> None:
    """Rejoin a known member.

    A member that missed the response gets it again; a changed member or the leader starts a rebalance.
    """
    unchanged = member.prefers(protocols)
    leads = member.member_id == group.leader_id
    if unchanged and (
        group.state is ClassicGroupState.COMPLETING_REBALANCE
        or (group.state is ClassicGroupState.STABLE and not leads)
    ):
        transition.reply(token, join_reply(group, member.member_id))
    else:
        _update(group, member, request, protocols)
        _add_pending(transition, group, member, token)
        rebalance(transition, group)


def _add(
    transition: Transition,
    group: ClassicGroup,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    member_id: str,
) -> None:
    member = _member(group, request, protocols, member_id)
    member.is_new = True
    if group.initial is not None:
        group.initial.has_new_members = True
    group.add(member, request.protocol_type)
    _add_pending(transition, group, member, token)
    transition.set_timer(member.session, NEW_MEMBER_TIMEOUT_MS)
    rebalance(transition, group)


def _replace_static(
    transition: Transition,
    group: ClassicGroup,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    old: ClassicGroupMember,
    new_id: str,
) -> None:
    """Replace a static member that rejoined without its id after a restart. Fences users of the old id."""
    leader_before = group.leader_id or ""
    transition.complete_pending(
        group.joining, old.member_id, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    )
    transition.complete_pending(group.syncing, old.member_id, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    transition.timers.cancel(old.session)
    member = _member(group, request, protocols, new_id)
    group.replace(old, member)
    start_session(transition, member)
    if group.state is ClassicGroupState.STABLE and group.select_protocol() == group.protocol:
        transition.record(record_of(group))
        transition.reply(token, _unchanged_reply(group, request, new_id, leader_before))
        return
    _add_pending(transition, group, member, token)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_if_all_joined(transition, group)
    else:
        prepare(transition, group)


def _unchanged_reply(
    group: ClassicGroup, request: JoinRequest, member_id: str, leader_before: str
) -> JoinReply:
    """Keep the generation. A client that cannot skip the assignment must not consider itself the leader."""
    leads = group.leader_id == member_id
    skips = leads and request.can_skip_assignment
    return JoinReply(
        ErrorCode.NONE,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol,
        (group.leader_id or "") if request.can_skip_assignment else leader_before,
        skips,
        joined_members(group) if skips else (),
    )


def _member(
    group: ClassicGroup, request: JoinRequest, protocols: Protocols, member_id: str
) -> ClassicGroupMember:
    return ClassicGroupMember(
        group.group_id,
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        protocols,
    )


def _update(
    group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest, protocols: Protocols
) -> None:
    group.change_protocols(member, protocols)
    member.set_timeouts(request.session_timeout_ms, request.rebalance_timeout_ms)


def _add_pending(
    transition: Transition, group: ClassicGroup, member: ClassicGroupMember, token: Token
) -> None:
    superseded = JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    transition.add_pending(group.joining, member.member_id, token, superseded)


def sync(transition: Transition, group: ClassicGroup, request: SyncRequest, token: Token) -> None:
    """Reply to the request, or keep it pending until the leader's assignment arrives."""
    error = _check_sync(group, request)
    if error:
        transition.reply(token, SyncReply(error))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        transition.timers.cancel(group.sync_timer)
    if group.state is ClassicGroupState.STABLE:
        transition.reply(token, sync_reply(group, member))
        start_session(transition, member)
        return
    transition.add_pending(group.syncing, member.member_id, token, REBALANCING)
    if member.member_id == group.leader_id:
        _assign(transition, group, request.assignments)


def _assign(transition: Transition, group: ClassicGroup, requested: Mapping[str, Buffer]) -> None:
    """Begin to consume with the leader's assignments.

    If these are larger than group.max.bytes, all members get UNKNOWN_SERVER_ERROR and rejoin, as in Kafka if
    the group's record is larger than message.max.bytes.
    """
    if sum(map(len, requested.values())) > transition.config.max_group_bytes:
        hand_out_assignments(transition, group, {}, ErrorCode.UNKNOWN_SERVER_ERROR)
        prepare(transition, group)
        return
    group.enter(ClassicGroupState.STABLE, transition.wall_ms)
    hand_out_assignments(transition, group, requested)
    transition.record(record_of(group))
    transition.effects.rebalances.append(group.type)


def heartbeat(
    transition: Transition, group: ClassicGroup, generation_id: int, member_id: str, instance_id: str | None
) -> ErrorCode:
    """Restart the session and return NONE, or the error by which the member knows what to do next."""
    error = group.check_member(member_id, instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    start_session(transition, group.members[member_id])
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differs(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def leave(
    transition: Transition, group: ClassicGroup, leaving: Sequence[LeavingMember], token: Token
) -> None:
    """Remove all listed members, then rebalance once."""
    before = len(group.members)
    errors = tuple(_leave_one(transition, group, one) for one in leaving)
    transition.reply(token, LeaveReply(ErrorCode.NONE, errors))
    if len(group.members) < before:
        rebalance(transition, group)
    else:
        # The group may have been waiting only for an id that was never used.
        complete_if_all_joined(transition, group)


def _leave_one(transition: Transition, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_ids[leaving.instance_id]
    elif member_id in group.pending_join:
        transition.timers.cancel(group.pending_join.pop(member_id))
        return ErrorCode.NONE
    elif error := group.check_member(member_id, leaving.instance_id):
        return error
    remove(transition, group, group.members[member_id])
    return ErrorCode.NONE
