"""DescribeGroups: the state and the members of groups.

Versions 0-6. One entry for every id asked for (librdkafka ends its process otherwise). A group that does not
exist is in state Dead; from 6 on it is GROUP_ID_NOT_FOUND besides (KIP-1043). Static members come with 4.
Left out: authorized operations (no authorizer: the field says "not asked").
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.groups import replies
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


@api(ApiKey.DESCRIBE_GROUPS, versions=(0, 6))
def handle(message: DescribeGroupsRequest, context: RequestContext, broker: Broker) -> Outcome:
    if not broker.groups.is_available:
        refused = [DescribedGroup(ErrorCode.NOT_COORDINATOR, None, group_id) for group_id in message.groups]
        return Answered(DescribeGroupsResponse(groups=refused))
    described = broker.groups.coordinator.described(message.groups, missing_is_error=context.api_version >= 6)
    return Answered(DescribeGroupsResponse(groups=[_group(group) for group in described]))


def _group(group: replies.DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group.error,
        group.message,
        group.group_id,
        group.state,
        group.protocol_type,
        group.protocol,
        [
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata,
                member.assignment,
            )
            for member in group.members
        ],
    )
