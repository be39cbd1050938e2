"""JoinGroup: a member joins, rejoins, or rejoins with changes.

Called by `coordinator` with an existing group. Answers the request or keeps it pending in the group. (Kafka:
GroupCoordinator.handleJoinGroup; KIP-394 member ids, KIP-345 static members, KIP-814 skipped assignment.)
"""

from typing import Final

from broker.errors import ErrorCode
from broker.groups.classic.group import Group
from broker.groups.classic.member import Member, Protocols, protocols_of
from broker.groups.classic.rebalance import (
    complete_if_all_joined,
    join_reply,
    joined_members,
    prepare,
    rebalance,
    remove,
    start_session,
)
from broker.groups.classic.state import State
from broker.groups.classic.stored import record_of
from broker.groups.replies import JoinReply, SyncReply, Token
from broker.groups.requests import JoinRequest
from broker.groups.timers import Kind, Timer
from broker.groups.transition import Transition

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""Maximum wait of a new member's first JoinGroup (Kafka: NewMemberJoinTimeoutMs, a constant there too)."""


def join(transition: Transition, group: Group, request: JoinRequest, token: Token, new_id: str) -> None:
    """Handle a JoinGroup. `new_id` is assigned to a member without an id."""
    protocols = protocols_of(request.protocols)
    member_id = request.member_id
    if not _has_space(transition, group, member_id):
        _reject_member(transition, group, member_id)
        transition.reply(token, JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    elif not group.supports(request.protocol_type, protocols):
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


def _has_space(transition: Transition, group: Group, member_id: str) -> bool:
    """Apply Kafka's group.max.size: during a rebalance the first members to join get the slots."""
    max_size = transition.config.max_size
    match group.state:
        case State.PREPARING_REBALANCE:
            return member_id in group.joining or len(group.joining) < max_size
        case State.COMPLETING_REBALANCE | State.STABLE:
            return member_id in group.members or len(group.members) < max_size
        case _:
            return True


def _reject_member(transition: Transition, group: Group, member_id: str) -> None:
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
    group: Group,
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
        timer = group.pending_join[new_id] = Timer(Kind.SESSION, group.group_id, new_id)
        transition.set_timer(timer, request.session_timeout_ms)
        transition.reply(token, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    else:
        _add(transition, group, request, protocols, token, new_id)


def _join_again(
    transition: Transition,
    group: Group,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    member: Member,
) -> None:
    """Rejoin a known member.

    A member that missed the response gets it again; a changed member or the leader starts a rebalance.
    """
    unchanged = member.prefers(protocols)
    leads = member.member_id == group.leader_id
    if unchanged and (
        group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)
    ):
        transition.reply(token, join_reply(group, member.member_id))
    else:
        _update(group, member, request, protocols)
        _park(transition, group, member, token)
        rebalance(transition, group)


def _add(
    transition: Transition,
    group: Group,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    member_id: str,
) -> None:
    member = _member(group, request, protocols, member_id)
    member.is_new = True
    if group.initial is not None:
        group.initial.members_came = True
    group.add(member, request.protocol_type)
    _park(transition, group, member, token)
    transition.set_timer(member.session, NEW_MEMBER_TIMEOUT_MS)
    rebalance(transition, group)


def _replace_static(
    transition: Transition,
    group: Group,
    request: JoinRequest,
    protocols: Protocols,
    token: Token,
    old: Member,
    new_id: str,
) -> None:
    """Replace a static member that rejoined without its id after a restart. Fences users of the old id."""
    leader_before = group.leader_id or ""
    transition.answer(group.joining, old.member_id, JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    transition.answer(group.syncing, old.member_id, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    transition.timers.cancel(old.session)
    member = _member(group, request, protocols, new_id)
    group.replace(old, member)
    start_session(transition, member)
    if group.state is State.STABLE and group.select_protocol() == group.protocol:
        transition.record(record_of(group))
        transition.reply(token, _unchanged_reply(group, request, new_id, leader_before))
        return
    _park(transition, group, member, token)
    if group.state is State.PREPARING_REBALANCE:
        complete_if_all_joined(transition, group)
    else:
        prepare(transition, group)


def _unchanged_reply(group: Group, request: JoinRequest, member_id: str, leader_before: str) -> JoinReply:
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


def _member(group: Group, request: JoinRequest, protocols: Protocols, member_id: str) -> Member:
    return Member(
        group.group_id,
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        protocols,
    )


def _update(group: Group, member: Member, request: JoinRequest, protocols: Protocols) -> None:
    group.change_protocols(member, protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms


def _park(transition: Transition, group: Group, member: Member, token: Token) -> None:
    superseded = JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    transition.park(group.joining, member.member_id, token, superseded)
