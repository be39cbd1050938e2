"""What a heartbeat or a JoinGroup brings about once its member is known: a new epoch of the group if a
subscription or a topic has changed, a new target assignment, and the member's next step towards it.

Called by `heartbeat` and `classic_members`. A partition is revoked before another member receives it: a
member reports that it has given up its partitions before it moves to the target's epoch. (Kafka: the three
steps of GroupMetadataManager.consumerGroupHeartbeat, CurrentAssignmentBuilder)
"""

from collections import Counter
from collections.abc import Mapping

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Assignment, Subscriber, overlap, topic_ids
from broker.coordinator.group.consumer.assignment_epochs import kept_epochs, with_granted
from broker.coordinator.group.consumer.assignors import ASSIGNORS
from broker.coordinator.group.consumer.group import NONE, ConsumerGroup, Owners
from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.consumer.regular_expressions import keep_expressions
from broker.coordinator.group.modern_changes import bump_if_changed, set_targets, store
from broker.coordinator.group.transition import Transition


def advance(
    transition: Transition,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    owned: Assignment | None,
    resolved: Mapping[str, frozenset[str]],
) -> Steps[ConsumerMember]:
    """Store the changed `member` and return it after its next step.

    `before` is the member as the group has it, or a new one. `owned` are the partitions that it reports;
    `resolved` are the topics of regular expressions that were looked up for this request.
    """
    member = yield from store(transition, group, before, member)
    subscribes = (member.topics, member.regex or "") != (before.topics, before.regex or "")
    is_bumped = (yield from keep_expressions(transition, group, resolved)) or subscribes
    if is_bumped or group.known_topics is not transition.topics.by_name:
        yield from bump_if_changed(transition, group, is_bumped=is_bumped)
    if group.epoch > group.target_epoch and not _waits(transition, group, before, member):
        yield from _assign(transition, group)
    target = group.target_of(member.member_id)
    after = yield from _reconciled(member, group.target_epoch, target, group.owners, owned)
    if after is not member and after != member:
        transition.keep(group)
        yield
        after = group.put(after)
        yield
        transition.record((yield from group.current_record(after)))
        _time_revocation(transition, group, after)
    return after


def add_expressions(
    transition: Transition, group: ConsumerGroup, resolved: Mapping[str, frozenset[str]]
) -> Steps[None]:
    """Keep what was looked up. The next heartbeat computes the assignment if topics have changed."""
    if (yield from keep_expressions(transition, group, resolved)):
        yield from bump_if_changed(transition, group, is_bumped=True)


def preferred_assignor(group: ConsumerGroup, available: tuple[str, ...]) -> str:
    """Return the assignor that most members name, or the first available one."""
    votes: Counter[str] = Counter()
    for member in group.members.values():
        if member.assignor is not None and member.assignor in available:
            votes[member.assignor] += 1
    return max(votes, key=votes.__getitem__) if votes else available[0]


def _waits(
    transition: Transition, group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember
) -> bool:
    """Return whether the member keeps the target that it has, if any, until the next assignment.

    One of the classic protocol would ask all the time, and one that subscribes to something else would keep
    what it no longer wants.
    """
    if member.classic is not None:
        return False
    if member.member_id in group.targets and (before.topics, before.regex) != (member.topics, member.regex):
        return False
    return transition.is_too_soon(group.assigned_ms)


def _assign(transition: Transition, group: ConsumerGroup) -> Steps[None]:
    """Compute the target assignment of the group's epoch, and record what has changed."""
    topics = transition.topics.by_name
    assign = ASSIGNORS[preferred_assignor(group, transition.consumer.assignors)]
    counts: dict[bytes, int] = {}
    for name in group.subscribed:
        topic = topics.get(name)
        if topic is not None:
            counts[topic.topic_id] = topic.partitions
        yield
    ids: dict[tuple[int, str | None], frozenset[bytes]] = {}
    subscribers = {}
    for member_id, member in group.members.items():
        subscription = id(member.topics), member.regex  # the group holds equal names once
        if subscription not in ids:
            ids[subscription] = yield from topic_ids(group.topics_of(member), topics)
        target = group.target_of(member_id)
        subscribers[member_id] = Subscriber(member.instance_id, ids[subscription], target)
    targets: dict[str, Assignment] = dict((yield from assign(subscribers, counts)))
    yield from set_targets(transition, group, targets)


def _time_revocation(transition: Transition, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Give the member its rebalance timeout to revoke its partitions. (The classic protocol has others.)"""
    if member.classic is not None:
        return
    timer = group.timers_of(member.member_id).rebalance
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        transition.set_timer(timer, member.rebalance_timeout_ms)
    else:
        transition.timers.cancel(timer)


def _reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owners: Owners,
    owned: Assignment | None,
) -> Steps[ConsumerMember]:
    """Return the member in its next state, or the same one if it cannot move on.

    `owned` are the partitions that it reports, None if it reports none with this heartbeat. Raises ApiError
    FENCED_MEMBER_EPOCH if a later version of the broker has stored its state.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return (yield from _next(member, member.epoch, target_epoch, target, owners, owned))
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or overlap(owned, member.revoking):
                return member
            return (yield from _next(member, member.epoch + 1, target_epoch, target, owners, owned))
        case MemberState.UNRELEASED_PARTITIONS:
            return (yield from _next(member, member.epoch, target_epoch, target, owners, owned))
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member has an unknown state. It must give up its partitions and join again.",
                )
            return (yield from _next(member, target_epoch, target_epoch, target, owners, owned))


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owners: Owners,
    owned: Assignment | None,
) -> Steps[ConsumerMember]:
    """Revoke first; with nothing to revoke, move to the target's epoch with what is free.

    `epoch` is kept while it revokes.
    """
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        still = partitions & target.get(topic_id, NONE)
        if still:
            kept[topic_id] = still
        if len(still) < len(partitions):
            revoking[topic_id] = partitions - still
        yield
    if revoking and (owned is None or overlap(owned, revoking)):
        since = yield from kept_epochs(member.since, member.assigned)
        return member.moved(MemberState.UNREVOKED_PARTITIONS, epoch, kept, since, revoking)
    since = yield from kept_epochs(member.since, kept)
    unreleased = False
    assigned = dict(kept)
    for topic_id, partitions in target.items():
        known = kept.get(topic_id, NONE)
        wanted = partitions - known if known else partitions
        free = owners.free(topic_id, wanted)
        unreleased = unreleased or len(free) < len(wanted)
        if free:
            assigned[topic_id] = known | free if known else free
            since[topic_id] = with_granted(since.get(topic_id, target_epoch), known, free, target_epoch)
        yield
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved(state, target_epoch, assigned, since)


def start_revocations(transition: Transition, group: ConsumerGroup) -> None:
    """Start the timers of revocations that the members of a loaded or restored group lack."""
    for member in group.members.values():
        is_timed = group.timers_of(member.member_id).rebalance.at_ms is not None
        if member.state is MemberState.UNREVOKED_PARTITIONS and not is_timed:
            _time_revocation(transition, group, member)
