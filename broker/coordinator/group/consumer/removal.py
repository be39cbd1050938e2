"""Removes members from a consumer group: they leave, or their time is up.

(Kafka: consumerGroupFenceMembers)
"""

from collections.abc import Collection

from broker.common.steps import Steps
from broker.coordinator.group.consumer.epochs import bump
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.consumer.persistence import member_tombstones
from broker.coordinator.group.consumer.records import KeyType, tombstone
from broker.coordinator.group.consumer.timing import stop_timers
from broker.coordinator.group.transition import Transition


def remove(transition: Transition, group: ConsumerGroup, member_ids: Collection[str]) -> Steps[None]:
    """Remove members, and begin an epoch: the next heartbeat assigns their partitions to others. Pauses for
    each member.
    """
    transition.keep(group)
    for member_id in member_ids:
        yield from group.remove(member_id)
        stop_timers(transition, group, member_id)
        for record in member_tombstones(group.group_id, member_id):
            transition.record(record)
    subscribed = {member.regex for member in group.members.values()}
    for regex in [regex for regex in group.expressions if regex not in subscribed]:
        transition.record(tombstone(KeyType.EXPRESSION, group.group_id, regex))
        del group.expressions[regex]
    bump(transition, group)
