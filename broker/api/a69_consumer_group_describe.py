"""ConsumerGroupDescribe: the state of consumer groups, and their members' assignments. (KIP-848)

Versions 0-1. Version 1 adds whether a member uses the classic protocol. A group that does not exist or is a
classic one is GROUP_ID_NOT_FOUND. If the client may not describe a topic of an assignment, the group is
TOPIC_AUTHORIZATION_FAILED. An id that is repeated gets INVALID_REQUEST, as in DescribeGroups.
"""

from functools import partial

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import described_groups, described_modern_group
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.slices import Slices
from broker.coordinator.group.consumer.assignment import NO_PARTITIONS
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The member types of version 1."""


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), services=GroupServices)
def handle(
    message: ConsumerGroupDescribeRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    groups = yield from described_groups(
        message.group_ids,
        DescribedGroup,
        partial(_describe, context, services),
        context,
        services,
        wants_operations=message.include_authorized_operations,
    )
    return Response(ConsumerGroupDescribeResponse(groups=groups))


def _describe(context: RequestContext, services: GroupServices, group_id: str) -> Slices[DescribedGroup]:
    group = services.groups.coordinator.consumer.described(group_id)
    make = DescribedGroup, Assignment, TopicPartitions
    return described_modern_group(
        group,
        make,
        lambda member: (member.assigned, group.targets.get(member.member_id, NO_PARTITIONS)),
        _member,
        context,
        services,
    )


def _member(member: ConsumerMember, assigned: Assignment, target: Assignment) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        list(member.topics),
        member.regex or "",
        assigned,
        target,
        CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )
