"""Describes a consumer group, for ConsumerGroupDescribe and the console."""

from broker.common.errors import ErrorCode
from broker.coordinator.group.consumer.epochs import preferred_assignor
from broker.coordinator.group.consumer.group import ConsumerGroup
from broker.coordinator.group.messages import DescribedConsumer, DescribedConsumerGroup


def describe_consumers(group: ConsumerGroup, assignors: tuple[str, ...]) -> DescribedConsumerGroup:
    members = tuple(
        DescribedConsumer(
            member.member_id,
            member.instance_id,
            member.rack_id,
            member.epoch,
            member.client_id,
            member.client_host,
            member.topics,
            member.regex,
            member.assigned,
            group.target_of(member.member_id),
            member.classic is not None,
        )
        for member in group.members.values()
    )
    return DescribedConsumerGroup(
        ErrorCode.NONE,
        group.group_id,
        group.state.value,
        group.epoch,
        group.target_epoch,
        preferred_assignor(group, assignors),
        members,
    )
