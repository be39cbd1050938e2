"""Groups that change their protocol: an empty one whenever a member of the other protocol joins, one with
members by `group.consumer.migration.policy`.

A classic group with members becomes a consumer group when a member of the consumer protocol joins (upgrade);
a consumer group becomes a classic one when its last member of the consumer protocol leaves and members of the
classic protocol remain (downgrade). No member loses its partitions by it. Called by the coordinators, with
all groups. (Kafka: convertToConsumerGroup, convertToClassicGroup, consumerGroupFenceMembers)
"""

from collections.abc import Collection, Mapping, Sequence

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.coordinator.group import rebalance
from broker.coordinator.group.any_group import GroupsById
from broker.coordinator.group.consumer import classic_members
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.consumer.assignment_epochs import same_epoch
from broker.coordinator.group.consumer.embedded import (
    read_assignment,
    read_subscription,
    topic_names,
    version_of,
    write_assignment,
)
from broker.coordinator.group.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from broker.coordinator.group.consumer.member import ClassicProtocols, ConsumerMember
from broker.coordinator.group.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from broker.coordinator.group.messages import JoinReply, JoinRequest, LeaveReply, LeavingMember, SyncReply
from broker.coordinator.group.modern_changes import (
    bump,
    drop_members,
    group_of_type,
    start_session,
    stop_timers,
)
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.persistence import encode, record_of, tombstone_of
from broker.coordinator.group.records import KeyType, tombstone
from broker.coordinator.group.streams.group import StreamsGroup
from broker.coordinator.group.transition import Transition


def get_or_create_consumer(transition: Transition, groups: GroupsById, group_id: str) -> Steps[ConsumerGroup]:
    """Return the group that a member joins, new or converted. Raises ApiError GROUP_ID_NOT_FOUND.

    A classic group that is converted is left as it is, but for its timers: call `dismiss` once nothing can
    fail any more.
    """
    found = groups.get(group_id)
    if isinstance(found, ModernGroup):
        return group_of_type(groups, group_id, ConsumerGroup)
    group = ConsumerGroup(group_id)
    if found is not None and not found.is_empty:
        _check_upgrade(transition, found)
        group = yield from _upgraded(transition, found)
    transition.effects.replaced.append((group_id, found))
    if found is not None:
        group.offsets = found.offsets
        stop_classic_timers(transition, found)
        transition.record(tombstone_of(found))
        yield from _record_all(transition, group)
    groups[group_id] = group
    return group


def dismiss(transition: Transition) -> None:
    """Tell the members of a classic group that has been converted, and that wait in a rebalance, to join
    again.
    """
    for _, group in transition.effects.replaced:
        if isinstance(group, ClassicGroup):
            _dismiss(transition, group)


def to_empty_classic(transition: Transition, groups: GroupsById, group: ConsumerGroup | StreamsGroup) -> None:
    """Make an empty group of another type a new classic one, which a member of that protocol joins."""
    run_through(_put_classic(transition, groups, group, ClassicGroup(group.group_id)))


def join(
    transition: Transition,
    groups: GroupsById,
    group: ConsumerGroup,
    request: JoinRequest,
    new_id: str,
) -> Steps[JoinReply]:
    """Handle a JoinGroup in a consumer group with members. Raises ApiError."""
    replaced, reply = yield from classic_members.join(transition, group, request, new_id)
    if replaced is not None and _can_downgrade(transition, group, leaving={}):
        yield from _downgrade(transition, groups, group)
    return reply


def leave(
    transition: Transition,
    groups: GroupsById,
    group: ConsumerGroup,
    leaving: Sequence[LeavingMember],
) -> Steps[LeaveReply]:
    """Handle a LeaveGroup in a consumer group; only members of the classic protocol leave by it. Pauses for
    each member.
    """
    errors: list[ErrorCode] = []
    left: dict[str, None] = {}
    for each in leaving:
        try:
            member = classic_members.leaving_member(group, each.member_id, each.instance_id)
        except ApiError as error:
            errors.append(error.code)
            continue
        is_repeated = member.member_id in left
        errors.append(ErrorCode.UNKNOWN_MEMBER_ID if is_repeated else ErrorCode.NONE)
        if not is_repeated:
            left[member.member_id] = None
    if left:
        yield from remove_members(transition, groups, group, left)
    return LeaveReply(ErrorCode.NONE, tuple(errors))


def remove_members(
    transition: Transition,
    groups: GroupsById,
    group: ConsumerGroup,
    member_ids: Mapping[str, None],
) -> Steps[None]:
    """Remove members. If only members of the classic protocol are left, the group may become theirs. Pauses
    for each member.
    """
    downgrades = _can_downgrade(transition, group, leaving=member_ids)
    yield from _remove_members(transition, group, member_ids.keys())
    if downgrades:
        classic = yield from _downgrade(transition, groups, group)
        rebalance.prepare(transition, classic)


def _check_upgrade(transition: Transition, group: ClassicGroup) -> None:
    refused = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
    if not transition.consumer.upgrades or not group.is_consumer_group:
        raise refused
    if len(group.members) > transition.consumer.max_size:
        raise refused


def _upgraded(transition: Transition, classic: ClassicGroup) -> Steps[ConsumerGroup]:
    """Return a consumer group with the members and assignments of a classic one. Raises ApiError."""
    group = ConsumerGroup(classic.group_id)
    group.set_epoch(classic.generation_id, 0)
    targets: dict[str, Assignment] = {}
    topics = transition.topics.by_name
    try:
        for member in list(classic.members.values()):
            assigned = yield from read_assignment(member.assignment, topics)
            if group.owners.has_any(assigned):
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a partition has two members")
            group.put((yield from _consumer_member(transition, classic, member, assigned)))
            yield
            targets[member.member_id] = assigned
    except ApiError as error:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade the classic group {classic.group_id} to consumer group because the embedded "
            f"consumer protocol is malformed: {error.message}.",
        ) from error
    group.set_targets(targets, classic.generation_id)
    return group


def _consumer_member(
    transition: Transition, classic: ClassicGroup, member: ClassicGroupMember, assigned: Assignment
) -> Steps[ConsumerMember]:
    protocols = tuple(member.protocols.items())
    metadata = member.protocols.get(classic.protocol or "", protocols[0][1])
    subscription = yield from read_subscription(metadata, transition.topics.by_name)
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        subscription.topics,
        classic=ClassicProtocols(member.session_timeout_ms, protocols),
        epoch=classic.generation_id,
        previous_epoch=classic.generation_id,
        assigned=assigned,
        since=(yield from same_epoch(assigned, classic.generation_id)),
    )


def _dismiss(transition: Transition, group: ClassicGroup) -> None:
    """Tell the members that wait in a rebalance to join again."""
    for member_id in group.members:
        again = ErrorCode.REBALANCE_IN_PROGRESS
        transition.complete_pending(group.joining, member_id, JoinReply(again, member_id))
        transition.complete_pending(group.syncing, member_id, SyncReply(again))


def stop_classic_timers(transition: Transition, group: ClassicGroup) -> None:
    """Cancel the timers of a classic group that becomes one of another type."""
    members = (member.session for member in group.members.values())
    for timer in (group.join_timer, group.sync_timer, *group.pending_join.values(), *members):
        transition.timers.cancel(timer)


def _record_all(transition: Transition, group: ConsumerGroup) -> Steps[None]:
    """Record a converted group with its members, and start their sessions."""
    for member in group.members.values():
        transition.record((yield from group.member_record(member)))
        yield
    if not group.members:
        return
    transition.record(group.epoch_record())
    for member_id, target in group.targets.items():
        transition.record((yield from group.target_record(member_id, target)))
        yield
    transition.record(group.target_epoch_record())
    for member in group.members.values():
        transition.record((yield from group.current_record(member)))
        yield
        start_session(transition, group, member, transition.consumer.session_timeout_ms)


def _can_downgrade(transition: Transition, group: ConsumerGroup, *, leaving: Mapping[str, None]) -> bool:
    left = [member for member_id, member in group.members.items() if member_id not in leaving]
    return (
        transition.consumer.downgrades
        and 0 < len(left) <= transition.config.max_size
        and all(member.classic is not None for member in left)
    )


def _downgrade(transition: Transition, groups: GroupsById, group: ConsumerGroup) -> Steps[ClassicGroup]:
    """Make a group of members of the classic protocol a classic one, stable with their target assignments."""
    names = yield from topic_names(transition.topics.by_name)
    classic = ClassicGroup(group.group_id)
    classic.generation_id = group.epoch
    for member in group.members.values():
        assert member.classic is not None
        protocols = dict(member.classic.protocols)
        added = ClassicGroupMember(
            group.group_id,
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.classic.session_timeout_ms,
            member.rebalance_timeout_ms,
            protocols,
        )
        version = version_of(member.classic.protocols[0][1])
        added.assignment = yield from write_assignment(group.target_of(member.member_id), version, names)
        encode(added)
        classic.add(added, CONSUMER_PROTOCOL_TYPE)
        yield
    classic.protocol = classic.select_protocol()
    classic.state, classic.state_ms = ClassicGroupState.STABLE, transition.wall_ms
    classic.keep_subscriptions()
    yield from _put_classic(transition, groups, group, classic)
    yield
    transition.record(record_of(classic))
    for each in classic.members.values():
        rebalance.start_session(transition, each)
    return classic


def _put_classic(
    transition: Transition,
    groups: GroupsById,
    group: ConsumerGroup | StreamsGroup,
    classic: ClassicGroup,
) -> Steps[None]:
    transition.keep(group)
    for record in (yield from group.tombstones()):
        transition.record(record)
    for member_id in list(group.timers):
        stop_timers(transition, group, member_id)
    classic.offsets = group.offsets
    groups[group.group_id] = classic


def _remove_members(transition: Transition, group: ConsumerGroup, member_ids: Collection[str]) -> Steps[None]:
    """Remove members with the expressions that no other subscribes to, and begin an epoch. Pauses for each
    member.
    """
    yield from drop_members(transition, group, member_ids)
    subscribed = {member.regex for member in group.members.values()}
    for regex in [regex for regex in group.expressions if regex not in subscribed]:
        transition.record(tombstone(KeyType.EXPRESSION, group.group_id, regex))
        del group.expressions[regex]
    bump(transition, group, group.metadata_hash)
