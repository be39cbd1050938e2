"""ShareGroupDescribe: the state of share groups, and their members' assignments. (KIP-932)

Version 1. A group that does not exist or is of another type is GROUP_ID_NOT_FOUND. If the client may not
describe a topic of a subscription or an assignment, the group is TOPIC_AUTHORIZATION_FAILED. An id that is
repeated gets INVALID_REQUEST, as in DescribeGroups.
"""

from functools import partial

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import described_groups, described_modern_group
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.slices import Slices
from broker.coordinator.group.share.member import ShareMember
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


@api(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), services=GroupServices)
def handle(
    message: ShareGroupDescribeRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    groups = yield from described_groups(
        message.group_ids,
        DescribedGroup,
        partial(_describe, context, services),
        context,
        services,
        wants_operations=message.include_authorized_operations,
    )
    return Response(ShareGroupDescribeResponse(groups=groups))


def _describe(context: RequestContext, services: GroupServices, group_id: str) -> Slices[DescribedGroup]:
    group = services.groups.coordinator.share.described(group_id)
    make = DescribedGroup, Assignment, TopicPartitions
    return described_modern_group(group, make, lambda member: (member.assigned,), _member, context, services)


def _member(member: ShareMember, assigned: Assignment) -> Member:
    return Member(
        member.member_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        list(member.topics),
        assigned,
    )
