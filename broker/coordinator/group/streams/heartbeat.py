"""StreamsGroupHeartbeat: a member of a streams group joins, learns its tasks, gives some up, or leaves; or
its time is up.

Called by `coordinator`, which undoes what a refused request has changed, and by `expiry`. Every refusal is an
ApiError. A heartbeat advances the group: to a new epoch if a member, a topic or a setting has changed, to a
new target assignment, and by the member's step to it. (Kafka: GroupMetadataManager.streamsGroupHeartbeat,
streamsGroupLeave, streamsGroupFenceMember)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.config.sections.streams_groups import STORED_REPLICAS, StreamsGroupSettings
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.consumer.migration import stop_classic_timers
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.messages import StreamsHeartbeatReply, StreamsHeartbeatRequest
from broker.coordinator.group.modern_changes import (
    check_bytes,
    check_size,
    drop_members,
    expired_members,
    fenced,
    group_of_type,
    invalid,
    refuse_empty,
    set_targets,
    start_session,
    stop_timers,
)
from broker.coordinator.group.modern_group import JOINS, LEAVES
from broker.coordinator.group.persistence import tombstone_of
from broker.coordinator.group.streams.assignor import TaskMember, TaskOffsets, TaskSets, assign
from broker.coordinator.group.streams.configured import ConfiguredTopology, configure
from broker.coordinator.group.streams.group import StatedTopology, StreamsGroup, stated
from broker.coordinator.group.streams.member import (
    LEAVES_FOR_NOW,
    MemberState,
    RestoredOffsets,
    StreamsMember,
)
from broker.coordinator.group.streams.reconciliation import reconciled
from broker.coordinator.group.streams.records import NO_TOPOLOGY_EPOCH
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.tasks import NO_MEMBER_TASKS, is_subset
from broker.coordinator.group.streams.topology import Topology, is_same
from broker.coordinator.group.timers import GroupTimer
from broker.coordinator.group.transition import Transition

MOST_OFFSETS: Final = 100_000
"""Offsets that a group keeps, about; ours."""


def check_request(request: StreamsHeartbeatRequest) -> None:
    """Check what does not depend on the group. Raises ApiError."""
    refuse_empty(request.member_id, "MemberId can't be empty.")
    refuse_empty(request.group_id, "GroupId can't be empty.")
    refuse_empty(request.instance_id, "InstanceId can't be empty.")
    refuse_empty(request.rack_id, "RackId can't be empty.")
    epoch, owned = request.epoch, request.owned
    if epoch == JOINS:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        for kind in ("active", "standby", "warmup"):
            if owned is None or getattr(owned, kind):
                raise invalid(f"{kind.title()}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise invalid("Topology must be non-null when (re-)joining.")
    elif epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < LEAVES_FOR_NOW:
        raise invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if epoch != JOINS and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def group_to_join(
    transition: Transition, groups: GroupsById, request: StreamsHeartbeatRequest
) -> StreamsGroup:
    """Return the group, a new one if a member joins it. An empty classic group becomes a streams group, with
    its offsets. Raises ApiError GROUP_ID_NOT_FOUND.
    """
    found = groups.get(request.group_id)
    if request.epoch != JOINS or not (found is None or (isinstance(found, ClassicGroup) and found.is_empty)):
        return group_of_type(groups, request.group_id, StreamsGroup, "Streams group")
    group = groups[request.group_id] = StreamsGroup(request.group_id)
    transition.effects.replaced.append((request.group_id, found))
    if isinstance(found, ClassicGroup):
        group.offsets = found.offsets
        stop_classic_timers(transition, found)
        transition.record(tombstone_of(found))
    return group


def changes_nothing(
    group: StreamsGroup, request: StreamsHeartbeatRequest, settings: StreamsGroupSettings, topics: Topics
) -> bool:
    """Return whether the heartbeat only restarts the session of a member that has its target."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and request.topology is None
        and request.endpoint_epoch == group.endpoint_epoch
        and request.epoch == member.epoch == group.target_epoch == group.epoch
        and member.state is MemberState.STABLE
        and group.known_topics is topics
        and group.configs == settings.assignment_configs
        and _updated(member, request) == member
    )


def beat(
    transition: Transition,
    group: StreamsGroup,
    request: StreamsHeartbeatRequest,
    settings: StreamsGroupSettings,
) -> Steps[StreamsHeartbeatReply]:
    """Handle a heartbeat that does not leave. Raises ApiError."""
    joins, was_empty = request.epoch == JOINS, group.is_empty
    if joins:
        is_known = request.member_id in group.members or request.instance_id in group.static_ids
        check_size(group, settings.max_size, "streams", is_known=is_known)
    before, replaced = _member(group, request)
    member = _updated(before, request)
    known = before if replaced is None else replaced
    size = known.size if known.member_id in group.members else 0
    check_bytes(transition.config, group.size - size, size, member.size)
    topology = yield from _topology(group, request.topology)
    statuses = _stale(group, member)
    metadata_hash, configured = yield from _configured(group, topology, transition.topics.by_name)
    if configured.is_ready:
        yield from _check_owned(configured, request.owned)

    if replaced is not None:
        yield from _replace_static(transition, group, replaced, before)
    is_bumped = yield from _store(transition, group, before, member)
    if group.topology is None:
        transition.keep(group)
        group.set_topology(topology)
        transition.record((yield from group.topology_record(topology.topology)))
    yield from _keep_offsets(group, configured, request)
    validated_epoch = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
    facts = metadata_hash, validated_epoch, settings.assignment_configs
    if is_bumped or facts != (group.metadata_hash, group.validated_epoch, group.configs):
        _begin_epoch(transition, group, *facts)
        transition.effects.rebalances.append(group.type)
    if was_empty and settings.initial_delay_ms > 0 and not group.is_delayed:
        group.is_delayed = True
        transition.set_timer(group.initial_timer, settings.initial_delay_ms)
    statuses += yield from _assign_if_due(transition, group, configured, settings)
    after = yield from _advance(transition, group, member, request.owned)
    start_session(transition, group, after, settings.session_timeout_ms)
    if request.shuts_down and group.shutdown_member is None:
        group.shutdown_member = after.member_id

    if before.endpoint != after.endpoint or (before.assigned != after.assigned and after.endpoint):
        group.endpoint_epoch += 1
    if joins:
        group.endpoints.pop(after.member_id, None)
    endpoints = None
    if group.endpoint_epoch != request.endpoint_epoch:
        endpoints = yield from group.endpoint_partitions(transition.topics.by_name)
    is_told = joins or before.assigned != after.assigned
    return StreamsHeartbeatReply(
        ErrorCode.NONE,
        None,
        after.member_id,
        after.epoch,
        settings.heartbeat_interval_ms,
        settings.task_offset_interval_ms,
        settings.acceptable_recovery_lag,
        (*statuses, *_statuses(group, after, configured, request, settings)),
        (yield from after.assigned.sets()) if is_told else None,
        group.endpoint_epoch,
        endpoints,
        {} if configured.error is None else configured.internal_topics_to_create,
    )


def leave(
    transition: Transition, group: StreamsGroup, request: StreamsHeartbeatRequest
) -> Steps[StreamsHeartbeatReply]:
    """A member leaves, for now or for good. Raises ApiError."""
    member = (
        group.member(request.member_id)
        if request.instance_id is None
        else _static_member(group, request.member_id, request.instance_id)
    )
    if request.shuts_down and group.shutdown_member is None:
        transition.keep(group)
        group.shutdown_member = request.member_id
    if request.epoch == LEAVES:
        yield from remove_members(transition, group, [member.member_id])
    else:
        yield from _leave_for_now(transition, group, member)
    return StreamsHeartbeatReply(ErrorCode.NONE, None, member.member_id, request.epoch)


def remove_members(transition: Transition, group: StreamsGroup, member_ids: Iterable[str]) -> Steps[None]:
    """Remove members, and begin an epoch: the next heartbeat assigns their tasks to others. Pauses for each
    member.
    """
    yield from drop_members(transition, group, member_ids)
    _begin_epoch(transition, group, group.metadata_hash, group.validated_epoch, group.configs)
    if not group.members:
        group.drop_configured()
        group.assigned_wall_ms = 0
        group.set_targets({}, group.epoch)
        transition.record(group.target_epoch_record())


def times_up(transition: Transition, group: StreamsGroup, timers: Sequence[GroupTimer]) -> Steps[None]:
    """Remove the members whose timers are due, and compute the first assignment if its timer is. Pauses for
    each member.
    """
    expired = expired_members(group, timers)
    if expired:
        yield from remove_members(transition, group, expired)
    if group.initial_timer in timers and group.is_delayed:
        transition.keep(group)
        group.is_delayed = False
        if group.members and group.configured is not None and group.epoch > group.target_epoch:
            yield from _assign(transition, group, group.configured)


def resume_timers(transition: Transition, group: StreamsGroup, settings: StreamsGroupSettings) -> None:
    """Start the timers, other than sessions, that a loaded or restored group lacks."""
    if group.is_delayed and group.initial_timer.at_ms is None:
        transition.set_timer(group.initial_timer, settings.initial_delay_ms)
    for member in group.members.values():
        is_timed = group.timers_of(member.member_id).rebalance.at_ms is not None
        if member.state is MemberState.UNREVOKED_TASKS and not is_timed:
            _time_revocation(transition, group, member)


def _begin_epoch(
    transition: Transition,
    group: StreamsGroup,
    metadata_hash: int,
    validated_epoch: int,
    configs: tuple[tuple[str, str], ...],
) -> None:
    """Begin an epoch of the group. A later heartbeat computes the assignment."""
    transition.keep(group)
    group.begin_epoch(metadata_hash, validated_epoch, configs)
    transition.record(group.epoch_record())


def _member(
    group: StreamsGroup, request: StreamsHeartbeatRequest
) -> tuple[StreamsMember, StreamsMember | None]:
    """Return the member as it is, a new one if it joins, and the member of another id that it replaces."""
    member_id, instance_id = request.member_id, request.instance_id
    if request.epoch != JOINS:
        member = (
            group.member(member_id) if instance_id is None else _static_member(group, member_id, instance_id)
        )
        _check_epoch(member, request)
        return member, None
    current = None if instance_id is None else group.static_ids.get(instance_id)
    if current is None:
        return group.members.get(member_id) or StreamsMember(member_id), None
    static = group.members[current]
    if static.epoch != LEAVES_FOR_NOW:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {current} member.",
        )
    return replace(static, member_id=member_id, epoch=JOINS, previous_epoch=JOINS), static


def _static_member(group: StreamsGroup, member_id: str, instance_id: str) -> StreamsMember:
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


def _check_epoch(member: StreamsMember, request: StreamsHeartbeatRequest) -> None:
    """Fence a member with another epoch. One that missed the last response may state the epoch before."""
    epoch, owned = request.epoch, request.owned
    if epoch == member.epoch:
        return
    missed = owned is not None and is_subset(owned, member.assigned)
    if not (epoch == member.previous_epoch < member.epoch and missed):
        raise fenced("streams", member, epoch)


def _updated(member: StreamsMember, request: StreamsHeartbeatRequest) -> StreamsMember:
    """Return the member with what the request states."""
    timeout_ms, tags, endpoint = request.rebalance_timeout_ms, request.client_tags, request.endpoint
    if endpoint is None and request.epoch != JOINS:
        endpoint = member.endpoint
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=endpoint,
        client_tags=member.client_tags if tags is None else tuple(sorted(tags.items())),
    )


def _topology(group: StreamsGroup, topology: Topology | None) -> Steps[StatedTopology]:
    """Return the topology of the group, which is that of its first member. Raises ApiError."""
    known = group.topology
    if topology is None:
        if known is None:  # its record is lost
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH, "The group has no topology. The member must rejoin."
            )
        return known
    if known is None:
        return (yield from stated(topology))
    if known.epoch <= topology.epoch and not (yield from is_same(known.topology, topology)):
        raise invalid("Topology updates are not supported yet.")
    return known


def _configured(
    group: StreamsGroup, topology: StatedTopology, topics: Topics
) -> Steps[tuple[int, ConfiguredTopology]]:
    """Return the hash of the topics, and the topology with them. Raises ApiError."""
    known = None if group.topology is None else group.configured
    if known is not None and group.known_topics is topics:
        return known.metadata_hash, known
    found = yield from group.topics_hash(topology, topics)
    if known is None or found != known.metadata_hash:
        known = yield from configure(topology.topology, topics, found)
    group.set_configured(known, topics)
    return found, known


def _check_owned(configured: ConfiguredTopology, owned: TaskSets | None) -> Steps[None]:
    """Refuse tasks that the topology does not have. Raises ApiError."""
    subtopologies = configured.subtopologies or {}
    for tasks in () if owned is None else (owned.active, owned.standby, owned.warmup):
        for subtopology_id, indexes in tasks.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise invalid(f"Subtopology {subtopology_id} does not exist in the topology.")
            count = subtopology.number_of_tasks
            for index in (min(indexes, default=0), max(indexes, default=0)):
                if not 0 <= index < count:
                    raise invalid(
                        f"Task {index} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {count}"
                    )
            yield


def _replace_static(
    transition: Transition, group: StreamsGroup, old: StreamsMember, new: StreamsMember
) -> Steps[None]:
    """Give a static member its new id, with the tasks and the target of the old one."""
    transition.keep(group)
    target = group.target_of(old.member_id)
    yield from group.remove(old.member_id)
    stop_timers(transition, group, old.member_id)
    new = yield from group.change(new)
    group.targets[new.member_id] = target
    for record in group.member_tombstones(old.member_id):
        transition.record(record)
    transition.record((yield from group.member_record(new)))
    transition.record((yield from group.target_record(new.member_id, target)))
    transition.record((yield from group.current_record(new)))


def _store(
    transition: Transition, group: StreamsGroup, before: StreamsMember, member: StreamsMember
) -> Steps[bool]:
    """Store and record what a member states, if that has changed. Return whether an epoch begins with it: not
    with a static member that comes back as it was.
    """
    if member == before:
        return False
    transition.keep(group)
    yield from group.change(member)
    transition.record((yield from group.member_record(member)))
    if member.instance_id is None:
        return True
    relevant = [
        (each.topology_epoch, each.rack_id, each.client_tags, each.process_id) for each in (before, member)
    ]
    return relevant[0] != relevant[1]


def _keep_offsets(
    group: StreamsGroup, configured: ConfiguredTopology, request: StreamsHeartbeatRequest
) -> Steps[None]:
    """Keep the offsets that the member reports of tasks that exist, unless they are too many: the assignor
    does without.
    """
    if request.task_offsets is None and request.task_end_offsets is None:
        return
    known = group.offsets_of(request.member_id)
    offsets, end_offsets = known
    if request.task_offsets is not None:
        offsets = yield from _existing(request.task_offsets, configured)
    if request.task_end_offsets is not None:
        end_offsets = yield from _existing(request.task_end_offsets, configured)
    stated = sum(map(len, offsets.values())) + sum(map(len, end_offsets.values()))
    if stated * max(len(group.members), 1) > MOST_OFFSETS:
        return
    group.keep_offsets(request.member_id, RestoredOffsets(offsets, end_offsets))


def _existing(offsets: TaskOffsets, configured: ConfiguredTopology) -> Steps[TaskOffsets]:
    found: dict[str, Mapping[int, int]] = {}
    subtopologies = configured.subtopologies or {}
    for subtopology_id, of_tasks in offsets.items():
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is not None:
            count = subtopology.number_of_tasks
            found[subtopology_id] = {each: of_tasks[each] for each in of_tasks if 0 <= each < count}
        yield
    return found


def _assign_if_due(
    transition: Transition,
    group: StreamsGroup,
    configured: ConfiguredTopology,
    settings: StreamsGroupSettings,
) -> Steps[list[Status]]:
    """Compute the target assignment of the group's epoch, or return why it has to wait."""
    reason = "initial rebalance delay" if group.is_delayed else "assignment interval"
    if not group.is_delayed:
        if group.target_epoch >= group.epoch:
            return []
        passed_ms = transition.wall_ms - group.assigned_wall_ms
        # A clock that was set back does not count.
        if not (group.assigned_wall_ms and 0 <= passed_ms < settings.assignment_interval_ms):
            yield from _assign(transition, group, configured)
            return []
    return [Status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {reason}.")]


def _assign(transition: Transition, group: StreamsGroup, configured: ConfiguredTopology) -> Steps[None]:
    """Compute the target assignment of the group's epoch, and record what has changed."""
    members: dict[str, TaskMember] = {}
    for member_id, member in group.members.items():
        restored = group.offsets_of(member_id)
        members[member_id] = TaskMember(
            member_id,
            member.instance_id,
            member.rack_id,
            member.process_id,
            dict(member.client_tags),
            (yield from member.assigned.sets()),
            restored.offsets,
            restored.end_offsets,
        )
        yield
    replicas = int(dict(group.configs).get(STORED_REPLICAS, 0))
    targets = yield from assign(members, configured, replicas)
    transition.keep(group)
    group.assigned_wall_ms = transition.wall_ms
    yield from set_targets(transition, group, targets)


def _advance(
    transition: Transition, group: StreamsGroup, member: StreamsMember, owned: TaskSets | None
) -> Steps[StreamsMember]:
    """Return the member after its next step to its target. Raises ApiError."""
    target = group.target_of(member.member_id)
    after = yield from reconciled(member, group.target_epoch, target, group.owners, owned)
    if after is not member and after != member:
        transition.keep(group)
        after = yield from group.change(after)
        transition.record((yield from group.current_record(after)))
        _time_revocation(transition, group, after)
    return after


def _time_revocation(transition: Transition, group: StreamsGroup, member: StreamsMember) -> None:
    """Give the member its rebalance timeout to revoke its tasks."""
    timer = group.timers_of(member.member_id).rebalance
    if member.state is MemberState.UNREVOKED_TASKS:
        transition.set_timer(timer, member.rebalance_timeout_ms)
    else:
        transition.timers.cancel(timer)


def _leave_for_now(transition: Transition, group: StreamsGroup, member: StreamsMember) -> Steps[None]:
    """A static member leaves and keeps its tasks until its session expires."""
    transition.keep(group)
    assigned = yield from member.assigned.without_epochs()
    left = yield from group.change(
        replace(member, epoch=LEAVES_FOR_NOW, assigned=assigned, revoking=NO_MEMBER_TASKS)
    )
    transition.timers.cancel(group.timers_of(member.member_id).rebalance)
    transition.record((yield from group.current_record(left)))


def _stale(group: StreamsGroup, member: StreamsMember) -> list[Status]:
    if group.topology is None or member.topology_epoch >= group.topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
        f"{group.topology.epoch}."
    )
    return [Status(StatusCode.STALE_TOPOLOGY, detail)]


def _statuses(
    group: StreamsGroup,
    member: StreamsMember,
    configured: ConfiguredTopology,
    request: StreamsHeartbeatRequest,
    settings: StreamsGroupSettings,
) -> list[Status]:
    found = [] if configured.error is None else [configured.error]
    if group.shutdown_member is not None:
        detail = (
            f"Streams group member {group.shutdown_member} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        found.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    has = {key for key, _ in member.client_tags}
    missing = [tag for tag in settings.rack_aware_assignment_tags if tag not in has]
    if missing and request.knows_missing_tags:
        detail = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
            "Configure them via 'client.tag.<tagKey>' in your Streams config."
        )
        found.append(Status(StatusCode.MISSING_CLIENT_TAGS, detail))
    return found
