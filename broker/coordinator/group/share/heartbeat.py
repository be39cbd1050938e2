"""ShareGroupHeartbeat: a member joins, learns its partitions, or leaves; or its session expires.

Called by `coordinator`, which undoes what a refused request has changed. Every refusal is an ApiError. A
heartbeat advances the group: to a new epoch if a subscription, a topic or the partitions with a state have
changed, to a new target assignment, and by the member's step to it; and it lists the states that are still to
be initialized. There is no reconciliation: several members can have a partition, so a member takes its target
at once. (Kafka: GroupMetadataManager.shareGroupHeartbeat, shareGroupLeave, shareGroupFenceMember)
"""

from collections.abc import Iterable

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer.assignment import (
    Assignment,
    Subscriber,
    Topics,
    topic_ids,
)
from broker.coordinator.group.messages import ModernHeartbeatReply, ShareHeartbeatRequest
from broker.coordinator.group.modern_changes import (
    bump_if_changed,
    check_bytes,
    check_size,
    drop_members,
    fenced,
    group_of_type,
    invalid,
    refuse_empty,
    set_targets,
    start_session,
    store,
    updated,
)
from broker.coordinator.group.modern_group import JOINS, LEAVES
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.member import ShareMember
from broker.coordinator.group.share.records import states_record
from broker.coordinator.group.share.simple_assignor import assign
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
    group: ShareGroup,
    request: ShareHeartbeatRequest,
    session_timeout_ms: int,
    interval_ms: int,
) -> Steps[ModernHeartbeatReply]:
    """Handle a heartbeat that does not leave. Raises ApiError."""
    is_known = request.member_id in group.members
    check_size(group, transition.share.max_size, "share", is_known=is_known)
    before = _member(group, request)
    stated = yield from updated(transition, before, request)
    others = group.size - (before.size if is_known else 0)
    check_bytes(transition.config, others, before.size, stated.size)
    after = yield from _advance(transition, group, before, stated)
    start_session(transition, group, after, session_timeout_ms)
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


def new_group(transition: Transition, groups: GroupsById, group_id: str) -> ShareGroup:
    """Return a new group, which is dropped again if its records cannot be written."""
    group = groups[group_id] = ShareGroup(group_id)
    transition.effects.replaced.append((group_id, None))
    return group


def group_to_join(transition: Transition, groups: GroupsById, request: ShareHeartbeatRequest) -> ShareGroup:
    """Return the group, a new one if a member joins it. A group of another type stays one, even if empty."""
    group_id = request.group_id
    if group_id in groups:
        return group_of_type(groups, group_id, ShareGroup)
    if request.epoch != JOINS:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return new_group(transition, groups, group_id)


def _member(group: ShareGroup, request: ShareHeartbeatRequest) -> ShareMember:
    """Return the member as it is, or a new one if it joins. Raises ApiError for another epoch than its own,
    unless it is the one before: the member missed the last response.
    """
    member = group.members.get(request.member_id)
    if member is None:
        return ShareMember(request.member_id) if request.epoch == JOINS else group.member(request.member_id)
    epoch = request.epoch
    if epoch == member.epoch or epoch == member.previous_epoch < member.epoch:
        return member
    previous = f", and it does not match the previous member epoch ({member.previous_epoch})"
    raise fenced("share", member, epoch, "" if epoch > member.epoch else previous)


def _advance(
    transition: Transition, group: ShareGroup, before: ShareMember, member: ShareMember
) -> Steps[ShareMember]:
    """Store the changed `member` and return it after its next step. `before` is the member as the group has
    it, or a new one.
    """
    topics = transition.topics.by_name
    member = yield from store(transition, group, before, member)
    is_bumped = member.topics != before.topics
    if group.epoch == group.target_epoch and not group.is_checked(topics):
        is_bumped = is_bumped or (yield from group.is_assignment_outdated(topics))
    if is_bumped or group.known_topics is not topics:
        yield from bump_if_changed(transition, group, is_bumped=is_bumped)
    keeps = member.member_id not in group.targets or before.topics == member.topics
    waits = keeps and transition.is_too_soon(group.assigned_ms)
    if group.epoch > group.target_epoch and not waits:
        yield from _assign(transition, group)
    if member.epoch != group.target_epoch:
        member = member.moved(group.target_epoch, group.target_of(member.member_id))
        transition.keep(group)
        member = group.put(member)
        transition.record((yield from group.current_record(member)))
    if not group.is_checked(topics):
        yield from _begin_states(transition, group)
        group.mark_checked(topics)
    return member


def _assign(transition: Transition, group: ShareGroup) -> Steps[None]:
    """Compute the target assignment of the group's epoch, and record what has changed."""
    topics = transition.topics.by_name
    ids: dict[int, frozenset[bytes]] = {}
    subscribers = {}
    for member_id, member in group.members.items():
        subscription = id(member.topics)  # the group holds equal names once
        if subscription not in ids:
            ids[subscription] = yield from topic_ids(member.topics, topics)
        subscribers[member_id] = Subscriber(None, ids[subscription], group.target_of(member_id))
    assignable = yield from group.assignable(topics)
    targets: dict[str, Assignment] = dict((yield from assign(subscribers, assignable)))
    yield from set_targets(transition, group, targets)


def _begin_states(transition: Transition, group: ShareGroup) -> Steps[None]:
    """Record the states that are to be initialized."""
    missing = yield from group.without_state(transition.topics.by_name)
    if missing:
        transition.keep(group)
        group.states = yield from group.states.begin(missing)
        transition.record((yield from states_record(group.group_id, group.states)))


def remove_members(transition: Transition, group: ShareGroup, member_ids: Iterable[str]) -> Steps[None]:
    """Remove members, and begin an epoch. Pauses for each member, and after a few topics."""
    yield from drop_members(transition, group, member_ids)
    yield from bump_if_changed(transition, group, is_bumped=True, counts=False)
