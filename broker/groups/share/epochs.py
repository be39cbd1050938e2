"""What a heartbeat brings about once its member is known: a new epoch of the group if a subscription, a topic
or the partitions with a state have changed, a new target assignment, the member's step to it, and the states
that are still to be initialized.

Called by `heartbeat`. A share group has no reconciliation: several members can have a partition, so a member
takes its target at once. (Kafka: GroupMetadataManager.shareGroupHeartbeat)
"""

from broker.groups.consumer.assignment import Assignment, metadata_hash
from broker.groups.consumer.subscriber import Subscriber
from broker.groups.share.group import ShareGroup
from broker.groups.share.member import ShareMember
from broker.groups.share.records import (
    current_record,
    epoch_record,
    member_record,
    states_record,
    target_epoch_record,
    target_record,
)
from broker.groups.share.simple_assignor import assign
from broker.groups.transition import Transition


def advance(
    transition: Transition, group: ShareGroup, before: ShareMember, member: ShareMember
) -> ShareMember:
    """Store the changed `member` and return it after its next step. `before` is the member as the group has
    it, or a new one.
    """
    is_bumped = False
    if member != before:
        transition.keep(group)
        group.put(member)
        transition.record(member_record(group.group_id, member))
        is_bumped = member.topics != before.topics
    topics = transition.topics.by_name
    if group.epoch == group.target_epoch and not group.is_checked(topics):
        is_bumped = is_bumped or group.is_assignment_outdated(topics)
    if is_bumped or group.known_topics is not topics:
        _bump_if_changed(transition, group, is_bumped=is_bumped)
    if group.epoch > group.target_epoch:
        _assign(transition, group)
    if member.epoch != group.target_epoch:
        member = member.moved(group.target_epoch, group.target_of(member.member_id))
        transition.keep(group)
        group.put(member)
        transition.record(current_record(group.group_id, member))
    if not group.is_checked(topics):
        _begin_states(transition, group)
        group.mark_checked(topics)
    return member


def bump(transition: Transition, group: ShareGroup) -> None:
    """Begin an epoch of the group, whose next heartbeat computes the assignment."""
    transition.keep(group)
    group.epoch += 1
    group.metadata_hash = metadata_hash(group.subscribed, transition.topics.by_name)
    transition.record(epoch_record(group))


def _bump_if_changed(transition: Transition, group: ShareGroup, *, is_bumped: bool) -> None:
    topics = transition.topics.by_name
    if is_bumped or metadata_hash(group.subscribed, topics) != group.metadata_hash:
        bump(transition, group)
    group.known_topics = topics


def _assign(transition: Transition, group: ShareGroup) -> None:
    """Compute the target assignment of the group's epoch, and record what has changed."""
    topics = transition.topics.by_name
    ids: dict[tuple[str, ...], frozenset[bytes]] = {}
    subscribers = {}
    for member_id, member in group.members.items():
        if member.topics not in ids:
            ids[member.topics] = frozenset(topics[name].topic_id for name in member.topics if name in topics)
        subscribers[member_id] = Subscriber(None, ids[member.topics], group.target_of(member_id))
    targets: dict[str, Assignment] = dict(assign(subscribers, group.assignable(topics)))
    transition.keep(group)
    for member_id, target in targets.items():
        if member_id not in group.targets or group.targets[member_id] != target:
            transition.record(target_record(group.group_id, member_id, target))
    group.targets, group.target_epoch = targets, group.epoch
    transition.record(target_epoch_record(group))


def _begin_states(transition: Transition, group: ShareGroup) -> None:
    """Record the states that are to be initialized."""
    missing = group.without_state(transition.topics.by_name)
    if missing:
        transition.keep(group)
        group.states = group.states.begin(missing)
        transition.record(states_record(group))
