"""Rebalances: the transition of a classic group from one generation to the next.

Called by `membership` and, when a timer expires, by `classic`. (Kafka: DelayedJoin,
InitialDelayedJoin, DelayedSync, DelayedHeartbeat.)
"""

from collections.abc import Mapping

from broker.common.errors import ErrorCode
from broker.coordinator.group.group import ClassicGroup, ClassicGroupMember, ClassicGroupState, InitialDelay
from broker.coordinator.group.messages import Buffer, JoinedMember, JoinReply, SyncReply
from broker.coordinator.group.persistence import record_of
from broker.coordinator.group.transition import Transition

REBALANCING = SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
REMOVED_JOINING = JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, "")
REMOVED_SYNCING = SyncReply(ErrorCode.UNKNOWN_MEMBER_ID)


def rebalance(transition: Transition, group: ClassicGroup) -> None:
    """Start a rebalance after a membership change, or complete the running one if possible."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_if_all_joined(transition, group)
    else:
        prepare(transition, group)


def prepare(transition: Transition, group: ClassicGroup) -> None:
    """Start the join phase.

    Members that wait for an assignment get REBALANCE_IN_PROGRESS at once, the others with their next
    heartbeat.
    """
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        hand_out_assignments(transition, group, {}, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    transition.timers.cancel(group.sync_timer)
    first = group.state is ClassicGroupState.EMPTY
    group.enter(ClassicGroupState.PREPARING_REBALANCE, transition.wall_ms)
    delay_ms = transition.config.initial_rebalance_delay_ms
    if first and delay_ms:
        group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        transition.set_timer(group.join_timer, delay_ms)
    elif first or group.all_joined:
        _complete(transition, group)
    else:
        transition.set_timer(group.join_timer, group.rebalance_timeout_ms)


def complete_if_all_joined(transition: Transition, group: ClassicGroup) -> None:
    """Complete the join phase if every member has joined and no initial delay is running."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.initial is None and group.all_joined:
        _complete(transition, group)


def join_phase_expired(transition: Transition, group: ClassicGroup) -> None:
    """End the join phase, or extend the initial delay if members joined meanwhile."""
    initial = group.initial
    if initial is not None and initial.has_new_members and initial.remaining_ms:
        initial.has_new_members = False
        delay_ms = min(transition.config.initial_rebalance_delay_ms, initial.remaining_ms)
        initial.remaining_ms = max(initial.remaining_ms - initial.delay_ms, 0)
        initial.delay_ms = delay_ms
        transition.set_timer(group.join_timer, delay_ms)
    else:
        _complete(transition, group)


def sync_phase_expired(transition: Transition, group: ClassicGroup) -> None:
    """Handle the end of the sync phase: remove members that never sent SyncGroup."""
    missing = [group.members[member_id] for member_id in group.members if member_id in group.pending_sync]
    if missing and group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        for member in missing:
            remove(transition, group, member)
        prepare(transition, group)


def session_expired(transition: Transition, group: ClassicGroup, member_id: str) -> None:
    """Handle an expired session: remove the member, or drop an unused id.

    An established member with a pending request stays.
    """
    member = group.members.get(member_id)
    if member is None:
        if group.pending_join.pop(member_id, None) is not None:
            complete_if_all_joined(transition, group)
    elif member.is_new or not (member_id in group.joining or member_id in group.syncing):
        remove(transition, group, member)
        rebalance(transition, group)


def resume(transition: Transition, group: ClassicGroup) -> None:
    """Start the timers of a group again after they were cancelled by a call that is undone."""
    for member in group.members.values():
        start_session(transition, member)
    for timer in group.pending_join.values():
        transition.set_timer(timer, transition.config.min_session_timeout_ms)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        initial = group.initial
        delay_ms = group.rebalance_timeout_ms if initial is None else initial.delay_ms
        transition.set_timer(group.join_timer, delay_ms)
    elif group.pending_sync:
        transition.set_timer(group.sync_timer, group.rebalance_timeout_ms)


def start_session(transition: Transition, member: ClassicGroupMember) -> None:
    """Restart the member's session timer."""
    transition.timers.set(member.session, transition.now_ms + member.session_timeout_ms)


def remove(transition: Transition, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove the member and complete its pending requests. The caller decides whether to rebalance."""
    member_id = member.member_id
    transition.timers.cancel(member.session)
    transition.complete_pending(group.joining, member_id, REMOVED_JOINING)
    transition.complete_pending(group.syncing, member_id, REMOVED_SYNCING)
    group.remove(member)


def hand_out_assignments(
    transition: Transition,
    group: ClassicGroup,
    assignments: Mapping[str, Buffer],
    error: ErrorCode = ErrorCode.NONE,
) -> None:
    """Set every member's assignment, or the error, and complete pending SyncGroup requests."""
    syncing = group.syncing
    for member_id, member in group.members.items():
        member.assignment = bytes(assignments.get(member_id, b""))
        if member_id in syncing:
            transition.complete_pending(syncing, member_id, sync_reply(group, member, error))
            start_session(transition, member)


def sync_reply(
    group: ClassicGroup, member: ClassicGroupMember, error: ErrorCode = ErrorCode.NONE
) -> SyncReply:
    if error:
        return SyncReply(error)
    return SyncReply(error, group.protocol_type, group.protocol, member.assignment)


def join_reply(group: ClassicGroup, member_id: str) -> JoinReply:
    """Build the member's JoinGroup response; only the leader gets the member list."""
    return JoinReply(
        ErrorCode.NONE,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol,
        group.leader_id or "",
        members=joined_members(group) if member_id == group.leader_id else (),
    )


def joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    protocol = group.protocol or ""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.protocols[protocol])
        for member in group.members.values()
    )


def _complete(transition: Transition, group: ClassicGroup) -> None:
    """Complete the join phase: remove dynamic members that did not rejoin, and begin a generation."""
    group.initial = None
    transition.timers.cancel(group.join_timer)
    for member in list(group.members.values()):
        if member.instance_id is None and member.member_id not in group.joining:
            remove(transition, group, member)
    if group.members and not group.elect_joined_leader():
        transition.set_timer(group.join_timer, group.rebalance_timeout_ms)
        return
    group.begin_generation(transition.wall_ms)
    if not group.members:
        transition.record(record_of(group))
        return
    for member_id, member in group.members.items():
        if member_id in group.joining:
            transition.complete_pending(group.joining, member_id, join_reply(group, member_id))
        start_session(transition, member)
        member.is_new = False
        group.pending_sync.add(member_id)
    transition.set_timer(group.sync_timer, group.rebalance_timeout_ms)
