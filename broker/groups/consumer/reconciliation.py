"""From a member's current assignment to its target, one step with each heartbeat.

Called by `epochs`. A partition is revoked before another member receives it: a member reports that it has
given up its partitions before it moves to the target's epoch. (Kafka: CurrentAssignmentBuilder)
"""

from collections.abc import Callable

from broker.errors import ApiError, ErrorCode
from broker.groups.consumer.assignment import Assignment, overlap
from broker.groups.consumer.member import ConsumerMember, MemberState

IsOwned = Callable[[bytes, int], bool]
"""Whether a member, the same or another, has this partition or has not given it up yet."""


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    is_owned: IsOwned,
    owned: Assignment | None,
) -> ConsumerMember:
    """Return the member in its next state, or the same one if it cannot move on.

    `owned` are the partitions that it reports, None if it reports none with this heartbeat. Raises ApiError
    FENCED_MEMBER_EPOCH if a later version of the broker has stored its state.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            return _next(member, member.epoch, target_epoch, target, is_owned, owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or overlap(owned, member.revoking):
                return member
            return _next(member, member.epoch + 1, target_epoch, target, is_owned, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, target_epoch, target, is_owned, owned)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member has an unknown state. It must give up its partitions and join again.",
                )
            return _next(member, target_epoch, target_epoch, target, is_owned, owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    is_owned: IsOwned,
    owned: Assignment | None,
) -> ConsumerMember:
    """Revoke first; with nothing to revoke, move to the target's epoch with what is free.

    `epoch` is kept while it revokes.
    """
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        still = partitions & target.get(topic_id, frozenset())
        if still:
            kept[topic_id] = still
        if len(still) < len(partitions):
            revoking[topic_id] = partitions - still
    if revoking and (owned is None or overlap(owned, revoking)):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoking)
    unreleased = False
    assigned = dict(kept)
    for topic_id, partitions in target.items():
        wanted = partitions - kept.get(topic_id, frozenset())
        free = frozenset(each for each in wanted if not is_owned(topic_id, each))
        unreleased = unreleased or len(free) < len(wanted)
        if free:
            assigned[topic_id] = kept.get(topic_id, frozenset()) | free
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved(state, target_epoch, assigned)
