"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, so that a client can detect truncation.

Versions 2-4. The single broker leads permanently at epoch 0, which ends at the log end. Any other epoch is
unknown: epoch -1 and offset -1 without an error, as in Kafka.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import PartitionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.partitions.fetching import check_epoch
from broker.partitions.partitions import LEADER_EPOCH, HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from broker.security.acl.acl import Operation


@api(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), services=PartitionServices)
def handle(
    message: OffsetForLeaderEpochRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    security = services.security
    is_broker = security.allows_cluster(context, Operation.CLUSTER_ACTION, logs=False)
    topics = []
    for topic in message.topics:
        hosted = services.partitions.by_name.get(topic.topic)
        allowed = is_broker or security.allows_topic(context, Operation.DESCRIBE, topic.topic)
        ends = []
        for each in topic.partitions:
            if not allowed:
                ends.append(EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each.partition))
                yield None
                continue
            yield None
            ends.append(_end(hosted, each))
        topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
        yield None
    return Response(OffsetForLeaderEpochResponse(topics=topics))


def _end(hosted: HostedTopic | None, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = None if hosted is None else hosted.log(requested.partition)
        if log is not None:
            log.check_usable()
    except ApiError as refused:
        return EpochEndOffset(refused.code, requested.partition)
    if log is None:
        return EpochEndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, requested.partition)
    if error := check_epoch(requested.current_leader_epoch):
        return EpochEndOffset(error, requested.partition)
    if requested.leader_epoch != LEADER_EPOCH:
        return EpochEndOffset(ErrorCode.NONE, requested.partition)
    return EpochEndOffset(ErrorCode.NONE, requested.partition, LEADER_EPOCH, log.high_watermark)
