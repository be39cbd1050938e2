"""The timers of members: they are started here and handled by `expiry` when due."""

from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.transition import Transition


def start_session(
    transition: Transition, group: ConsumerGroup, member: ConsumerMember, session_timeout_ms: int
) -> None:
    """Restart the member's session. One of the classic protocol states its own timeout."""
    timeout_ms = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
    transition.set_timer(group.timers_of(member.member_id).session, timeout_ms)


def stop_timers(transition: Transition, group: ConsumerGroup, member_id: str) -> None:
    """Cancel and forget the timers of a member that is gone."""
    timers = group.timers.pop(member_id, None)
    for timer in timers or ():
        transition.timers.cancel(timer)


def start_missing(transition: Transition, group: ConsumerGroup, session_timeout_ms: int) -> None:
    """Start the timers that the members of a loaded or restored group lack."""
    for member_id, member in group.members.items():
        timers = group.timers_of(member_id)
        if timers.session.at_ms is None:
            start_session(transition, group, member, session_timeout_ms)
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
        if revokes and timers.rebalance.at_ms is None:
            transition.set_timer(timers.rebalance, member.rebalance_timeout_ms)
