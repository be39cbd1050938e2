"""DescribeProducers: the active producers of a partition. (KIP-664)

Version 0. Returns the last sequence number and timestamp of each, the epoch of the coordinator that wrote its
last marker, and the first offset of its ongoing transaction, each -1 without one.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import PartitionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.log.producer_state import ProducerStateEntry
from broker.partitions.partitions import HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from broker.security.acl.acl import Operation

NO_SEQUENCE: Final = -1
UNKNOWN: Final = "This server does not host this topic-partition."


@api(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), services=PartitionServices)
def handle(
    message: DescribeProducersRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    topics = []
    for topic in message.topics:
        hosted = services.partitions.by_name.get(topic.name)
        allowed = services.security.allows_topic(context, Operation.READ, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            if not allowed:
                partitions.append(PartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                yield None
                continue
            yield None
            partitions.append((yield from _producers(hosted, index)))
        topics.append(TopicResponse(topic.name, partitions))
        yield None
    return Response(DescribeProducersResponse(topics=topics))


def _producers(hosted: HostedTopic | None, index: int) -> Slices[PartitionResponse]:
    try:
        log = None if hosted is None else hosted.log(index)
        if log is not None:
            log.check_usable()
    except ApiError as refused:
        return PartitionResponse(index, refused.code, refused.message)
    if log is None:
        return PartitionResponse(
            index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None if hosted is not None else UNKNOWN
        )
    active = []
    for producer_id in log.producers.ids():
        yield None
        producer = log.producers.get(producer_id)
        if producer is not None:
            active.append(_state(producer_id, producer))
    return PartitionResponse(index, ErrorCode.NONE, None, active)


def _state(producer_id: int, producer: ProducerStateEntry) -> ProducerState:
    last_sequence, last_timestamp = NO_SEQUENCE, producer.seen_ms
    if producer.batches:
        last = producer.batches[-1]
        last_sequence, last_timestamp = last.last_sequence, last.max_timestamp
    return ProducerState(
        producer_id,
        producer.epoch,
        last_sequence,
        last_timestamp,
        producer.coordinator_epoch,
        producer.first_offset,
    )
