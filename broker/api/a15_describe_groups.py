"""DescribeGroups: the state and the members of groups.

Versions 0-6. Every requested id has an entry (librdkafka aborts its process otherwise). An unknown group has
state Dead, and from version 6 also GROUP_ID_NOT_FOUND (KIP-1043). Static members from 4. An id that is
repeated gets INVALID_REQUEST, because a request could name a group with many members 100,000 times; Kafka
describes it again. Authorized operations, from 3, are all those of a group if there is no authorizer.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import described_groups
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import DescribedMember as MemberDescription
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


@api(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), services=GroupServices)
def handle(
    message: DescribeGroupsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    if not services.groups.is_available:
        refused = yield from mapped(
            lambda group_id: DescribedGroup(ErrorCode.NOT_COORDINATOR, None, group_id), message.groups
        )
        return Response(DescribeGroupsResponse(groups=refused))
    classic, missing_is_error = services.groups.coordinator.classic, context.api_version >= 6

    def describe(group_id: str) -> Slices[DescribedGroup]:
        group = classic.described(group_id, missing_is_error=missing_is_error)
        return DescribedGroup(
            group.error,
            group.message,
            group.group_id,
            group.state,
            group.protocol_type,
            group.protocol,
            (yield from mapped(_member, group.members)),
        )

    groups = yield from described_groups(
        message.groups,
        DescribedGroup,
        describe,
        context,
        services,
        wants_operations=message.include_authorized_operations,
        refuses_empty=False,
    )
    return Response(DescribeGroupsResponse(groups=groups))


def _member(member: MemberDescription) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata,
        member.assignment,
    )
