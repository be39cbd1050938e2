"""DescribeGroups: the state and the members of groups.

Versions 0-6. Every requested id has an entry (librdkafka aborts its process otherwise). An unknown group has
state Dead, and from version 6 also GROUP_ID_NOT_FOUND (KIP-1043). Static members from 4. An id that is
repeated gets INVALID_REQUEST, because a request could name a group with many members 100,000 times; Kafka
describes it again. Authorized operations, from 3, are all those of a group if there is no authorizer.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import Distinct, mapped
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import DescribedGroup as GroupDescription
from broker.coordinator.group.messages import DescribedMember as MemberDescription
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from broker.security.acl.acl import Operation, ResourceType

REPEATED: Final = "The request names the group more than once."


@api(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), services=GroupServices)
def handle(
    message: DescribeGroupsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    if not services.groups.is_available:
        refused = yield from mapped(
            lambda group_id: DescribedGroup(ErrorCode.NOT_COORDINATOR, None, group_id), message.groups
        )
        return Response(DescribeGroupsResponse(groups=refused))
    coordinator = services.groups.coordinator
    groups = []
    distinct: Distinct[str] = Distinct()
    security, wants_operations = services.security, message.include_authorized_operations
    for group_id in message.groups:
        if not security.allows_group(context, Operation.DESCRIBE, group_id):
            groups.append(DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))
        elif distinct.add(group_id):
            described = coordinator.classic.described(group_id, missing_is_error=context.api_version >= 6)
            members = yield from mapped(_member, described.members)
            groups.append(_group(described, members))
            if wants_operations and not described.error:
                groups[-1].authorized_operations = security.operations(context, ResourceType.GROUP, group_id)
        else:
            groups.append(DescribedGroup(ErrorCode.INVALID_REQUEST, REPEATED, group_id))
        yield None
    yield from distinct.release()
    return Response(DescribeGroupsResponse(groups=groups))


def _group(group: GroupDescription, members: list[DescribedGroupMember]) -> DescribedGroup:
    return DescribedGroup(
        group.error,
        group.message,
        group.group_id,
        group.state,
        group.protocol_type,
        group.protocol,
        members,
    )


def _member(member: MemberDescription) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata,
        member.assignment,
    )
