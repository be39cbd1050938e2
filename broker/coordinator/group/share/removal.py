"""Removes members from a share group: they leave, or their sessions expire. (Kafka: shareGroupFenceMember)"""

from collections.abc import Collection, Iterable

from broker.common.steps import Steps
from broker.coordinator.group.share.epochs import bump
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.persistence import member_tombstones
from broker.coordinator.group.timers import Timer
from broker.coordinator.group.transition import Transition


def remove(transition: Transition, group: ShareGroup, member_ids: Collection[str]) -> Steps[None]:
    """Remove members, and begin an epoch: the next heartbeat assigns their partitions to others. Pauses for
    each member, and after a few topics.
    """
    transition.keep(group)
    for member_id in member_ids:
        group.remove(member_id)
        timer = group.timers.pop(member_id, None)
        if timer is not None:
            transition.timers.cancel(timer)
        for record in member_tombstones(group.group_id, member_id):
            transition.record(record)
        yield
    yield from bump(transition, group)


def sessions_expired(transition: Transition, group: ShareGroup, timers: Iterable[Timer]) -> Steps[None]:
    """Remove the members whose timers are due, unless a timer is that of an earlier member of its id."""
    expired = [
        timer.member_id
        for timer in timers
        if group.timers.get(timer.member_id) is timer and timer.member_id in group.members
    ]
    if expired:
        yield from remove(transition, group, expired)
