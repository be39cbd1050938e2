"""DescribeQuorum: the quorum of the metadata log, of which this broker is the only voter. (KIP-595)

Versions 0-2; version 2 has the directory of each voter, which is unknown here, and the addresses of the
voters (KIP-853). The offset of the metadata log is the number of its last change. Another partition than 0 of
`__cluster_metadata` is UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ClusterServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from broker.security.acl.acl import Operation

METADATA_TOPIC: Final = "__cluster_metadata"
LEADER_EPOCH: Final = 1
UNKNOWN: Final = "This server does not host this topic-partition."
NODES_SINCE: Final = 2


@api(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), services=ClusterServices)
def handle(
    message: DescribeQuorumRequest, context: RequestContext, services: ClusterServices
) -> Slices[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return Response(DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not _is_of_metadata(message):
        topics = []
        for topic in message.topics:
            found = yield from mapped(_unknown, topic.partitions)
            topics.append(ResponseTopicData(topic.topic_name, found))
            yield None
        return Response(DescribeQuorumResponse(error_message="", topics=topics))
    node, offset = services.node_id, services.control.image.version
    voter = ReplicaState(
        node,
        log_end_offset=offset,
        last_fetch_timestamp=context.wall_ms,
        last_caught_up_timestamp=context.wall_ms,
    )
    quorum = ResponsePartitionData(
        error_message="",
        leader_id=node,
        leader_epoch=LEADER_EPOCH,
        high_watermark=offset,
        current_voters=[voter],
    )
    reply = DescribeQuorumResponse(error_message="", topics=[ResponseTopicData(METADATA_TOPIC, [quorum])])
    if context.api_version >= NODES_SINCE:
        endpoint = services.endpoints[context.connection.listener]
        reply.nodes = [Node(node, [Listener(context.connection.listener, endpoint.host, endpoint.port)])]
    return Response(reply)


def _is_of_metadata(message: DescribeQuorumRequest) -> bool:
    """Whether the request names exactly the metadata log."""
    return [
        (topic.topic_name, [each.partition_index for each in topic.partitions[:2]])
        for topic in message.topics[:2]
    ] == [(METADATA_TOPIC, [0])]


def _unknown(partition: RequestPartitionData) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=UNKNOWN
    )
