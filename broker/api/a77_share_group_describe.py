"""ShareGroupDescribe: the state of share groups, and their members' assignments. (KIP-932)

Version 1. A group that does not exist or is of another type is GROUP_ID_NOT_FOUND. If the client may not
describe a topic of a subscription or an assignment, the group is TOPIC_AUTHORIZATION_FAILED. An id that is
repeated gets INVALID_REQUEST, as in DescribeGroups.
"""

from collections.abc import Mapping
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import Distinct
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import DescribedShareGroup, DescribedShareMember
from broker.metadata.image import Topic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from broker.security.acl.acl import Operation, ResourceType

REPEATED: Final = "The request names the group more than once."

HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


@api(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), services=GroupServices)
def handle(
    message: ShareGroupDescribeRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    groups = []
    distinct: Distinct[str] = Distinct()
    security, wants_operations = services.security, message.include_authorized_operations
    for group_id in message.group_ids:
        if not security.allows_group(context, Operation.DESCRIBE, group_id):
            groups.append(DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id))
        elif not services.groups.is_available:
            groups.append(DescribedGroup(ErrorCode.NOT_COORDINATOR, None, group_id))
        elif not group_id:
            groups.append(DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id))
        elif distinct.add(group_id):
            described = services.groups.coordinator.share.described(group_id)
            groups.append((yield from _group(described, context, services)))
            if wants_operations and not described.error:
                groups[-1].authorized_operations = security.operations(context, ResourceType.GROUP, group_id)
        else:
            groups.append(DescribedGroup(ErrorCode.INVALID_REQUEST, REPEATED, group_id))
        yield None
    yield from distinct.release()
    return Response(ShareGroupDescribeResponse(groups=groups))


def _group(
    group: DescribedShareGroup, context: RequestContext, services: GroupServices
) -> Slices[DescribedGroup]:
    described = DescribedGroup(
        group.error,
        group.message,
        group.group_id,
        group.state,
        group.epoch,
        group.target_epoch,
        group.assignor,
    )
    topics, security = services.control.image.topics_by_id, services.security
    known: dict[bytes, bool] = {}
    for member in group.members:
        for topic_id in member.assigned:
            if topic_id not in known and topic_id in topics:
                name = topics[topic_id].name
                known[topic_id] = security.allows_topic(context, Operation.DESCRIBE, name, logs=False)
            yield None
        described.members.append((yield from _member(member, topics)))
    if not all(known.values()):
        return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN, group.group_id)
    return described


def _member(member: DescribedShareMember, topics: Mapping[bytes, Topic]) -> Slices[Member]:
    yield None
    assigned = []
    for topic_id, indexes in member.assigned.items():
        if topic_id in topics:
            assigned.append(TopicPartitions(topic_id, topics[topic_id].name, sorted(indexes)))
        yield None
    return Member(
        member.member_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        list(member.topics),
        Assignment(assigned),
    )
