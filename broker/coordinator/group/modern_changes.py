"""What heartbeats, and members that leave, change in a consumer, share or streams group: checks, epochs, the
target assignment, the timers of members. (Kafka: GroupMetadataManager)

Called by `heartbeat` of each type, `consumer.epochs` and `consumer.migration`. A refusal is an ApiError.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.config.sections.groups import GroupConfig
from broker.coordinator.group.consumer.assignment import subscribed_names
from broker.coordinator.group.messages import ConsumerHeartbeatRequest, ShareHeartbeatRequest
from broker.coordinator.group.modern_group import AnyMember, ModernGroup, Target
from broker.coordinator.group.timers import GroupTimer
from broker.coordinator.group.transition import Transition

Member = TypeVar("Member", bound=AnyMember)
Group = TypeVar("Group", bound=ModernGroup[Any, Any, Any])


def group_of_type(
    groups: Mapping[str, object], group_id: str, kind: type[Group], missing: str = "Group"
) -> Group:
    """Return a group of this type. Raises ApiError GROUP_ID_NOT_FOUND."""
    group = groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{missing} {group_id} not found.")
    if not isinstance(group, kind):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.type} group.")
    return group


def updated(
    transition: Transition,
    member: Member,
    request: ConsumerHeartbeatRequest | ShareHeartbeatRequest,
    **others: object,
) -> Steps[Member]:
    """Return the member with what the request states. `others` are the fields of its type only."""
    topics = member.topics
    if request.topics is not None:
        topics = yield from subscribed_names(request.topics, transition.topics.by_name)
    rack_id = member.rack_id if request.rack_id is None else request.rack_id
    return replace(  # type: ignore[type-var]
        member,
        rack_id=rack_id,
        topics=topics,
        client_id=request.client_id,
        client_host=request.client_host,
        **others,
    )


def store(
    transition: Transition, group: ModernGroup[Member, Any, Any], before: Member, member: Member
) -> Steps[Member]:
    """Store and record what a member states, if that has changed, and return the member as the group has it.
    `before` is the member so far, or a new one.
    """
    if member == before:
        return member
    transition.keep(group)
    member = group.put(member)
    yield
    transition.record((yield from group.member_record(member)))
    return member


def bump(transition: Transition, group: ModernGroup[Any, Any, Any], metadata_hash: int) -> None:
    """Begin an epoch of the group, whose next heartbeat computes the assignment."""
    transition.keep(group)
    group.set_epoch(group.epoch + 1, metadata_hash)
    transition.record(group.epoch_record())


def bump_if_changed(
    transition: Transition, group: ModernGroup[Any, Any, Any], *, is_bumped: bool, counts: bool = True
) -> Steps[None]:
    """Begin an epoch if a member (`is_bumped`) or a subscribed topic has changed. It counts as a rebalance:
    in Kafka only one that a heartbeat begins does, and not that of a member that leaves.
    """
    topics = transition.topics.by_name
    found = yield from group.subscribers.metadata_hash(topics)
    if is_bumped or found != group.metadata_hash:
        bump(transition, group, found)
        if counts:
            transition.effects.rebalances.append(group.type)
    group.known_topics = topics


def set_targets(
    transition: Transition, group: ModernGroup[Any, Any, Target], targets: dict[str, Target]
) -> Steps[None]:
    """Replace the target assignment by that of the group's epoch, and record what has changed."""
    transition.keep(group)
    for member_id, target in targets.items():
        yield
        if member_id not in group.targets or group.targets[member_id] != target:
            transition.record((yield from group.target_record(member_id, target)))
    group.set_targets(targets, group.epoch)
    transition.record(group.target_epoch_record())


def drop_members(
    transition: Transition, group: ModernGroup[Any, Any, Any], member_ids: Iterable[str]
) -> Steps[None]:
    """Remove members. The caller begins an epoch: the next heartbeat assigns their partitions to others.
    Pauses for each member.
    """
    transition.keep(group)
    for member_id in member_ids:
        yield from group.remove(member_id)
        stop_timers(transition, group, member_id)
        for record in group.member_tombstones(member_id):
            transition.record(record)


def expired_members(group: ModernGroup[Any, Any, Any], timers: Iterable[GroupTimer]) -> Mapping[str, None]:
    """Return the members whose timers are due. A timer may be that of an earlier member of the same id."""
    return {
        timer.member_id: None
        for timer in timers
        if timer in tuple(group.timers.get(timer.member_id, ())) and timer.member_id in group.members
    }


def start_session(
    transition: Transition, group: ModernGroup[Any, Any, Any], member: AnyMember, session_timeout_ms: int
) -> None:
    """Restart the member's session; `session_timeout_ms` is that of the group."""
    timer = group.timers_of(member.member_id).session
    transition.set_timer(timer, member.session_ms(session_timeout_ms))


def stop_timers(transition: Transition, group: ModernGroup[Any, Any, Any], member_id: str) -> None:
    """Cancel and forget the timers of a member that is gone."""
    for timer in group.timers.pop(member_id, ()):
        transition.timers.cancel(timer)


def start_missing(transition: Transition, group: ModernGroup[Any, Any, Any], session_timeout_ms: int) -> None:
    """Start the sessions that the members of a loaded or restored group lack."""
    for member_id, member in group.members.items():
        if group.timers_of(member_id).session.at_ms is None:
            start_session(transition, group, member, session_timeout_ms)


def check_size(group: ModernGroup[Any, Any, Any], most: int, what: str, *, is_known: bool) -> None:
    """Apply `group.consumer.max.size` or that of another type. `what` is the type of the group."""
    if len(group.members) >= most and not is_known:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {what} group has reached its maximum capacity of {most} members.",
        )


def check_bytes(config: GroupConfig, others: int, before: int, after: int) -> None:
    """Apply `group.max.bytes` to a member that grows from `before` to `after` bytes. `others` are the bytes
    of the other members. Raises ApiError.
    """
    most = config.max_group_bytes
    if after > before and others + after > most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The members of the group have more than {most} bytes."
        )


def refuse_empty(text: str | None, message: str) -> None:
    """Raise ApiError INVALID_REQUEST if a field is there, but blank."""
    if text is not None and not text.strip():
        raise invalid(message)


def invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def fenced(what: str, member: AnyMember, epoch: int, previous: str = "") -> ApiError:
    """Return the error of a member that states another epoch than its own."""
    relation = "greater" if epoch > member.epoch else "smaller"
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {what} group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}){previous}. The member must abandon all its partitions and rejoin.",
    )
