"""DescribeShareGroupOffsets: returns the start offset of each share partition of a group. (KIP-932)

Versions 0-1. All share partitions that have a state, or the named ones: one without a state begins at -1. As
in Kafka, a group that does not exist has none, and no error. The group's DESCRIBE operation is required, and
that of each topic: of all share partitions, those of other topics are left out. A group that is repeated gets
INVALID_REQUEST, because a request could name a group with many share partitions 100,000 times. Version 1 has
the number of records that are not complete, the lag, or -1 without a start offset (KIP-1226). An offline
partition, whose end is unknown, is LEADER_NOT_AVAILABLE.
"""

from collections.abc import Iterable
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import REPEATED, group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import Distinct
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

NO_OFFSET: Final = -1


@api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1), services=GroupServices)
def handle(
    message: DescribeShareGroupOffsetsRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    distinct: Distinct[str] = Distinct()
    groups = []
    for group in message.groups:
        described = DescribeShareGroupOffsetsResponseGroup(group.group_id)
        groups.append(described)
        if refusal := group_refusal(group.group_id, context, services, Operation.DESCRIBE):
            described.error_code = refusal
        elif not distinct.add(group.group_id):
            described.error_code, described.error_message = ErrorCode.INVALID_REQUEST, REPEATED
        elif group.topics is None:
            described.topics = yield from _all(group.group_id, context, services)
        else:
            described.topics = yield from _named(group, context, services)
        yield None
    yield from distinct.release()
    return Response(DescribeShareGroupOffsetsResponse(groups=groups))


def _all(
    group_id: str, context: RequestContext, services: GroupServices
) -> Slices[list[DescribeShareGroupOffsetsResponseTopic]]:
    """Describe the share partitions of the topics that exist and that the client may describe."""
    described = []
    topics = services.control.image.topics_by_id
    for topic_id, named in services.groups.coordinator.share.states(group_id).initialized.items():
        topic = topics.get(topic_id)
        if topic is not None and services.security.allows_topic(
            context, Operation.DESCRIBE, topic.name, logs=False
        ):
            of_topic = yield from _topic(group_id, topic.name, topic_id, sorted(named.partitions), services)
            described.append(of_topic)
        yield None
    return described


def _named(
    group: DescribeShareGroupOffsetsRequestGroup,
    context: RequestContext,
    services: GroupServices,
) -> Slices[list[DescribeShareGroupOffsetsResponseTopic]]:
    described = []
    topics = services.control.image.topics
    for each in group.topics or ():
        topic_id = topics[each.topic_name].topic_id if each.topic_name in topics else ZERO_UUID
        error = ErrorCode.NONE
        if not services.security.allows_topic(context, Operation.DESCRIBE, each.topic_name):
            topic_id, error = ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        of_topic = yield from _topic(
            group.group_id, each.topic_name, topic_id, each.partitions, services, error
        )
        described.append(of_topic)
        yield None
    return described


def _topic(
    group_id: str,
    name: str,
    topic_id: bytes,
    partitions: Iterable[int],
    services: GroupServices,
    error: ErrorCode = ErrorCode.NONE,
) -> Slices[DescribeShareGroupOffsetsResponseTopic]:
    described = DescribeShareGroupOffsetsResponseTopic(name, topic_id)
    for index in partitions:
        partition = DescribeShareGroupOffsetsResponsePartition(index, NO_OFFSET, error_code=error)
        summary = None if topic_id == ZERO_UUID else services.share.summary(group_id, topic_id, index)
        if summary is not None:
            try:
                partition.lag = services.groups.share_lag(name, index, summary)
            except ApiError as refused:
                partition = DescribeShareGroupOffsetsResponsePartition(
                    index, error_code=refused.code, error_message=refused.message
                )
            else:
                partition.start_offset, partition.leader_epoch = summary.start_offset, summary.leader_epoch
        described.partitions.append(partition)
        yield None
    return described
