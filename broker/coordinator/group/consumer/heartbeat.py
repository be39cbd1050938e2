"""ConsumerGroupHeartbeat: a member joins, reports its partitions, receives others, or leaves.

Called by `coordinator`, which finds or creates the group. Every refusal is an ApiError, raised before
anything has changed. (Kafka: GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave)
"""

from collections.abc import Collection

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment, Topics, is_subset
from broker.coordinator.group.consumer.assignment_epochs import same_epoch
from broker.coordinator.group.consumer.epochs import add_expressions, advance
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import LEAVES_FOR_NOW, ConsumerMember, MemberState
from broker.coordinator.group.messages import ConsumerHeartbeatRequest, ModernHeartbeatReply
from broker.coordinator.group.modern_changes import (
    check_bytes,
    check_size,
    fenced,
    invalid,
    refuse_empty,
    start_session,
    stop_timers,
    updated,
)
from broker.coordinator.group.modern_group import JOINS, LEAVES
from broker.coordinator.group.transition import Transition


def check_request(request: ConsumerHeartbeatRequest, assignors: tuple[str, ...]) -> None:
    """Check what does not depend on the group. Raises ApiError."""
    epoch = request.epoch
    if request.requires_member_id or epoch > 0 or epoch == LEAVES:
        refuse_empty(request.member_id, "MemberId can't be empty.")
    refuse_empty(request.group_id, "GroupId can't be empty.")
    refuse_empty(request.instance_id, "InstanceId can't be empty.")
    refuse_empty(request.rack_id, "RackId can't be empty.")
    if epoch == JOINS:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise invalid("TopicPartitions must be empty when (re-)joining.")
        if request.topics is None and request.regex is None:
            raise invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < LEAVES_FOR_NOW:
        raise invalid("MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def beat(
    transition: Transition,
    group: ConsumerGroup,
    request: ConsumerHeartbeatRequest,
    session_timeout_ms: int,
    interval_ms: int,
) -> Steps[ModernHeartbeatReply]:
    """Handle a heartbeat that does not leave. `request.member_id` is set. Raises ApiError.

    A member that adds an expression to names is assigned the topics of the names first: clients that
    subscribe to both count on these two steps of Kafka's.
    """
    check_consumers(transition, group, request.member_id, request.instance_id)
    before, replaced = _member(group, request)
    stated = yield from _updated(transition, before, request)
    selected = request.resolved.get(stated.regex or "", frozenset())
    check_member_bytes(transition, group, before if replaced is None else replaced, stated, selected)
    if replaced is not None:
        yield from replace_static(transition, group, replaced, before)
    is_later = bool(stated.topics) and request.regex in request.resolved.keys() - group.expressions.keys()
    resolved = {} if is_later else request.resolved
    after = yield from advance(transition, group, before, stated, request.owned, resolved)
    if is_later:
        yield from add_expressions(transition, group, request.resolved)
    start_session(transition, group, after, session_timeout_ms)
    assignment: Assignment | None = None
    if _is_full(request) or after.assigned != before.assigned:
        assignment = after.assigned
    return ModernHeartbeatReply(ErrorCode.NONE, after.member_id, after.epoch, interval_ms, assignment)


def changes_nothing(group: ConsumerGroup, request: ConsumerHeartbeatRequest, topics: Topics) -> bool:
    """Return whether the heartbeat only restarts the session of a member that has reached the target."""
    member = group.members.get(request.member_id)
    states = (request.topics, request.regex, request.owned)
    return (
        member is not None
        and not any(each is not None for each in states)
        and not request.resolved
        and request.epoch == member.epoch == group.target_epoch == group.epoch
        and member.state is MemberState.STABLE
        and group.known_topics is topics
    )


def leaving_member(group: ConsumerGroup, request: ConsumerHeartbeatRequest) -> ConsumerMember:
    """Return the member that leaves, for now or for good. Raises ApiError."""
    if request.instance_id is None:
        return group.member(request.member_id)
    return static_member(group, request.member_id, request.instance_id)


def leave_for_now(transition: Transition, group: ConsumerGroup, member: ConsumerMember) -> Steps[None]:
    """A static member leaves and keeps its partitions until its session expires."""
    transition.keep(group)
    since = yield from same_epoch(member.assigned, 0)
    left = replace(member, epoch=LEAVES_FOR_NOW, revoking={}, since=since)
    group.put(left)
    transition.timers.cancel(group.timers_of(member.member_id).rebalance)
    transition.record((yield from group.current_record(left)))


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return a static member under its current id. Raises ApiError."""
    current = group.static_ids.get(instance_id)
    if current is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if current != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {current}.",
        )
    return group.members[current]


def replace_static(
    transition: Transition, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember
) -> Steps[None]:
    """Give a static member its new id, with the partitions and the target of the old one."""
    transition.keep(group)
    target = group.target_of(old.member_id)
    yield from group.remove(old.member_id)
    stop_timers(transition, group, old.member_id)
    yield
    new = group.put(new)
    group.targets[new.member_id] = target
    yield
    for record in group.member_tombstones(old.member_id):
        transition.record(record)
    transition.record((yield from group.member_record(new)))
    transition.record((yield from group.target_record(new.member_id, target)))
    transition.record((yield from group.current_record(new)))


def check_consumers(
    transition: Transition, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> None:
    """Apply `group.consumer.max.size`. Raises ApiError.

    A known instance takes the place of its earlier member. Kafka refuses it if the group is full.
    """
    is_known = member_id in group.members or instance_id in group.static_ids
    check_size(group, transition.consumer.max_size, "consumer", is_known=is_known)


def check_member_bytes(
    transition: Transition,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    selected: Collection[str] = (),
) -> None:
    """Apply `group.max.bytes`. Raises ApiError. `selected` are the topics of the member's expression."""
    held, size, grown = group.subscribers, before.size, member.size
    others = group.size + held.resolved_bytes
    is_in = before.member_id in group.members
    if is_in:
        others -= size
    if (before.topics, before.regex or "") != (member.topics, member.regex or ""):
        removed = held.removed_bytes(before.topics, before.regex) if is_in else 0
        size, others = size + removed, others - removed
        grown += held.added_bytes(member.topics, member.regex, selected)
    check_bytes(transition.config, others, size, grown)


def _member(
    group: ConsumerGroup, request: ConsumerHeartbeatRequest
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the member as it is, a new one if it joins, and the member of another id that it replaces."""
    member_id, instance_id, joins = request.member_id, request.instance_id, request.epoch == JOINS
    if instance_id is None:
        member = group.members.get(member_id) or (
            ConsumerMember(member_id) if joins else group.member(member_id)
        )
        _check_epoch(member, request)
        return member, None
    if not joins:
        member = static_member(group, member_id, instance_id)
        _check_epoch(member, request)
        return member, None
    current = group.static_ids.get(instance_id)
    if current is None:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    static = group.members[current]
    if static.classic is None and static.epoch != LEAVES_FOR_NOW:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {current} member.",
        )
    return replace(static, member_id=member_id, epoch=JOINS, previous_epoch=JOINS), static


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> None:
    """Fence a member with another epoch. One that missed the last response may state the epoch before."""
    epoch = request.epoch
    if epoch == member.epoch:
        return
    missed = request.owned is not None and is_subset(request.owned, member.assigned)
    if epoch < member.epoch and epoch == member.previous_epoch and missed:
        return
    raise fenced("consumer", member, epoch)


def _updated(
    transition: Transition, member: ConsumerMember, request: ConsumerHeartbeatRequest
) -> Steps[ConsumerMember]:
    """Return the member with what the request states."""
    timeout_ms = request.rebalance_timeout_ms
    return updated(
        transition,
        member,
        request,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        regex=member.regex if request.regex is None else request.regex,
        assignor=member.assignor if request.assignor is None else request.assignor,
        classic=None,
    )


def _is_full(request: ConsumerHeartbeatRequest) -> bool:
    """Return whether the member states everything, as it does when it joins or after an error."""
    subscribes = request.topics is not None or request.regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.owned is not None
