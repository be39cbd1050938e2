"""Advances a share group after a heartbeat of a known member: to a new epoch of the group if a subscription,
a topic or the partitions with a state have changed, to a new target assignment, and by the member's step to
it; and lists the states that are still to be initialized.

Called by `heartbeat`. A share group has no reconciliation: several members can have a partition, so a member
takes its target at once. (Kafka: GroupMetadataManager.shareGroupHeartbeat)
"""

from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment, Subscriber, topic_ids
from broker.coordinator.group.share.group import ShareGroup, ShareMember
from broker.coordinator.group.share.records import (
    current_record,
    epoch_record,
    member_record,
    states_record,
    target_epoch_record,
    target_record,
)
from broker.coordinator.group.share.simple_assignor import assign
from broker.coordinator.group.transition import Transition


def advance(
    transition: Transition, group: ShareGroup, before: ShareMember, member: ShareMember
) -> Steps[ShareMember]:
    """Store the changed `member` and return it after its next step. `before` is the member as the group has
    it, or a new one.
    """
    is_bumped = False
    topics = transition.topics.by_name
    if member != before:
        transition.keep(group)
        member = group.put(member)
        yield
        transition.record((yield from member_record(group.group_id, member)))
        is_bumped = member.topics != before.topics
    if group.epoch == group.target_epoch and not group.is_checked(topics):
        is_bumped = is_bumped or (yield from group.is_assignment_outdated(topics))
    if is_bumped or group.known_topics is not topics:
        yield from _bump_if_changed(transition, group, is_bumped=is_bumped)
    keeps = member.member_id not in group.targets or before.topics == member.topics
    waits = keeps and transition.is_too_soon(group.assigned_ms, transition.share)
    if group.epoch > group.target_epoch and not waits:
        yield from _assign(transition, group)
    if member.epoch != group.target_epoch:
        member = member.moved(group.target_epoch, group.target_of(member.member_id))
        transition.keep(group)
        member = group.put(member)
        transition.record((yield from current_record(group.group_id, member)))
    if not group.is_checked(topics):
        yield from _begin_states(transition, group)
        group.mark_checked(topics)
    return member


def bump(transition: Transition, group: ShareGroup) -> Steps[None]:
    """Begin an epoch of the group, whose next heartbeat computes the assignment."""
    transition.keep(group)
    group.epoch += 1
    topics = transition.topics.by_name
    group.metadata_hash = yield from group.subscribers.metadata_hash(topics)
    transition.record(epoch_record(group))


def _bump_if_changed(transition: Transition, group: ShareGroup, *, is_bumped: bool) -> Steps[None]:
    topics = transition.topics.by_name
    if not is_bumped:
        found = yield from group.subscribers.metadata_hash(topics)
        is_bumped = found != group.metadata_hash
    if is_bumped:
        yield from bump(transition, group)
    group.known_topics = topics


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
    transition.keep(group)
    for member_id, target in targets.items():
        yield
        if member_id not in group.targets or group.targets[member_id] != target:
            transition.record((yield from target_record(group.group_id, member_id, target)))
    group.targets, group.target_epoch = targets, group.epoch
    transition.record(target_epoch_record(group))


def _begin_states(transition: Transition, group: ShareGroup) -> Steps[None]:
    """Record the states that are to be initialized."""
    missing = yield from group.without_state(transition.topics.by_name)
    if missing:
        transition.keep(group)
        group.states = yield from group.states.begin(missing)
        transition.record((yield from states_record(group)))
