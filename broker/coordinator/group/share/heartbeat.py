"""ShareGroupHeartbeat: a member joins, learns its partitions, or leaves; or its session expires.

Called by `coordinator`, which undoes what a refused request has changed. Every refusal is an ApiError.
(Kafka: GroupMetadataManager.shareGroupHeartbeat, shareGroupLeave, shareGroupFenceMember)
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer.assignment import Topics, subscribed_names
from broker.coordinator.group.messages import ModernHeartbeatReply, ShareHeartbeatRequest
from broker.coordinator.group.modern_group import check_bytes, invalid, refuse_empty
from broker.coordinator.group.share.epochs import advance, bump
from broker.coordinator.group.share.group import JOINS, LEAVES, ShareGroup, ShareMember
from broker.coordinator.group.share.records import member_tombstones
from broker.coordinator.group.timers import GroupTimer
from broker.coordinator.group.transition import Transition


def check_request(request: ShareHeartbeatRequest) -> None:
    """Check what does not depend on the group. Raises ApiError."""
    refuse_empty(request.member_id, "MemberId can't be empty.")
    refuse_empty(request.group_id, "GroupId can't be empty.")
    refuse_empty(request.rack_id, "RackId can't be empty.")
    if request.epoch == JOINS and not request.topics:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.epoch < LEAVES:
        raise invalid("MemberEpoch is invalid.")


def beat(
    transition: Transition,
    groups: GroupsById,
    request: ShareHeartbeatRequest,
    session_timeout_ms: int,
    interval_ms: int,
) -> Steps[ModernHeartbeatReply]:
    """Handle a heartbeat. Raises ApiError."""
    if request.epoch == LEAVES:
        group = share_group(groups, request.group_id)
        yield from _remove_members(transition, group, [group.member(request.member_id).member_id])
        return ModernHeartbeatReply(ErrorCode.NONE, request.member_id, LEAVES)
    group = _group(transition, groups, request)
    _check_size(transition, group, request.member_id)
    before = _member(group, request)
    stated = yield from _updated(transition, before, request)
    check_bytes(
        transition.config,
        group.size - (before.size if before.member_id in group.members else 0),
        before.size,
        stated.size,
    )
    after = yield from advance(transition, group, before, stated)
    transition.set_timer(group.timer_of(after.member_id), session_timeout_ms)
    is_told = request.epoch == JOINS or request.topics is not None or after.assigned != before.assigned
    assignment = after.assigned if is_told else None
    return ModernHeartbeatReply(ErrorCode.NONE, after.member_id, after.epoch, interval_ms, assignment)


def changes_nothing(group: ShareGroup, request: ShareHeartbeatRequest, topics: Topics) -> bool:
    """Return whether the heartbeat only restarts the session of a member that has its target."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and request.topics is None
        and request.epoch == member.epoch == group.target_epoch == group.epoch
        and group.known_topics is topics
        and group.is_checked(topics)
    )


def share_group(groups: GroupsById, group_id: str) -> ShareGroup:
    """Return a share group. Raises ApiError GROUP_ID_NOT_FOUND."""
    group = groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    return group


def new_group(transition: Transition, groups: GroupsById, group_id: str) -> ShareGroup:
    """Return a new group, which is dropped again if its records cannot be written."""
    group = groups[group_id] = ShareGroup(group_id)
    transition.effects.replaced.append((group_id, None))
    return group


def start_missing(transition: Transition, group: ShareGroup, session_timeout_ms: int) -> None:
    """Start the sessions that the members of a loaded or restored group lack."""
    for member_id in group.members:
        timer = group.timer_of(member_id)
        if timer.at_ms is None:
            transition.set_timer(timer, session_timeout_ms)


def _group(transition: Transition, groups: GroupsById, request: ShareHeartbeatRequest) -> ShareGroup:
    """Return the group, a new one if a member joins it. A group of another type stays one, even if empty."""
    group_id = request.group_id
    if group_id in groups:
        return share_group(groups, group_id)
    if request.epoch != JOINS:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return new_group(transition, groups, group_id)


def _check_size(transition: Transition, group: ShareGroup, member_id: str) -> None:
    """Apply `group.share.max.size`. Raises ApiError."""
    most = transition.share.max_size
    if len(group.members) >= most and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
        )


def _member(group: ShareGroup, request: ShareHeartbeatRequest) -> ShareMember:
    """Return the member as it is, or a new one if it joins. Raises ApiError for another epoch than its own,
    unless it is the one before: the member missed the last response.
    """
    member = group.members.get(request.member_id)
    if member is None:
        return ShareMember(request.member_id) if request.epoch == JOINS else group.member(request.member_id)
    epoch = request.epoch
    relation = previous = ""
    if epoch > member.epoch:
        relation = "greater"
    elif epoch < member.epoch and epoch != member.previous_epoch:
        relation = "smaller"
        previous = f", and it does not match the previous member epoch ({member.previous_epoch})"
    if relation:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {relation} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}){previous}. The member must abandon all its partitions and rejoin.",
        )
    return member


def _updated(
    transition: Transition, member: ShareMember, request: ShareHeartbeatRequest
) -> Steps[ShareMember]:
    """Return the member with what the request states."""
    topics = member.topics
    if request.topics is not None:
        topics = yield from subscribed_names(request.topics, transition.topics.by_name)
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=topics,
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _remove_members(transition: Transition, group: ShareGroup, member_ids: Collection[str]) -> Steps[None]:
    """Remove members, and begin an epoch: the next heartbeat assigns their partitions to others. Pauses for
    each member, and after a few topics.
    """
    transition.keep(group)
    for member_id in member_ids:
        group.remove(member_id)
        timer = group.timers.pop(member_id, None)
        if timer is not None:
            transition.timers.cancel(timer)
        for record in member_tombstones(group.group_id, member_id):
            transition.record(record)
        yield
    yield from bump(transition, group)


def sessions_expired(transition: Transition, group: ShareGroup, timers: Iterable[GroupTimer]) -> Steps[None]:
    """Remove the members whose timers are due, unless a timer is that of an earlier member of its id."""
    expired = [
        timer.member_id
        for timer in timers
        if group.timers.get(timer.member_id) is timer and timer.member_id in group.members
    ]
    if expired:
        yield from _remove_members(transition, group, expired)
