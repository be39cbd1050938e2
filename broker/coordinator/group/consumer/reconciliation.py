"""From a member's current assignment to its target, one step with each heartbeat.

Called by `epochs`. A partition is revoked before another member receives it: a member reports that it has
given up its partitions before it moves to the target's epoch. (Kafka: CurrentAssignmentBuilder)
"""

from broker.common.errors import ApiError, ErrorCode
from broker.common.steps import Pace, Steps
from broker.coordinator.group.consumer.assignment import Assignment, overlap
from broker.coordinator.group.consumer.group import NONE, Owners
from broker.coordinator.group.consumer.member import ConsumerMember, MemberState


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owners: Owners,
    owned: Assignment | None,
    pace: Pace,
) -> Steps[ConsumerMember]:
    """Return the member in its next state, or the same one if it cannot move on. Pauses after a few topics.

    `owned` are the partitions that it reports, None if it reports none with this heartbeat. Raises ApiError
    FENCED_MEMBER_EPOCH if a later version of the broker has stored its state.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return (yield from _next(member, member.epoch, target_epoch, target, owners, owned, pace))
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or overlap(owned, member.revoking):
                return member
            return (yield from _next(member, member.epoch + 1, target_epoch, target, owners, owned, pace))
        case MemberState.UNRELEASED_PARTITIONS:
            return (yield from _next(member, member.epoch, target_epoch, target, owners, owned, pace))
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member has an unknown state. It must give up its partitions and join again.",
                )
            return (yield from _next(member, target_epoch, target_epoch, target, owners, owned, pace))


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owners: Owners,
    owned: Assignment | None,
    pace: Pace,
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
        if pace.spent():
            yield
    if revoking and (owned is None or overlap(owned, revoking)):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoking)
    unreleased = False
    assigned = dict(kept)
    for topic_id, partitions in target.items():
        known = kept.get(topic_id, NONE)
        wanted = partitions - known if known else partitions
        free = owners.free(topic_id, wanted)
        unreleased = unreleased or len(free) < len(wanted)
        if free:
            assigned[topic_id] = known | free if known else free
        if pace.spent():
            yield
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved(state, target_epoch, assigned)
