"""Removes a member from a share group: it leaves, or its session expires. (Kafka: shareGroupFenceMember)"""

from broker.groups.share.epochs import bump
from broker.groups.share.group import ShareGroup
from broker.groups.share.persistence import member_tombstones
from broker.groups.timers import Timer
from broker.groups.transition import Transition
from broker.steps import Steps, finished


def remove(transition: Transition, group: ShareGroup, member_id: str) -> Steps[None]:
    """Remove a member, and begin an epoch: the next heartbeat assigns its partitions to others."""
    transition.keep(group)
    group.remove(member_id)
    timer = group.timers.pop(member_id, None)
    if timer is not None:
        transition.timers.cancel(timer)
    for record in member_tombstones(group.group_id, member_id):
        transition.record(record)
    yield from bump(transition, group)


def session_expired(transition: Transition, group: ShareGroup, timer: Timer) -> None:
    """Remove the member whose timer is due, unless the timer is that of an earlier member of its id."""
    if group.timers.get(timer.member_id) is timer and timer.member_id in group.members:
        finished(remove(transition, group, timer.member_id))
