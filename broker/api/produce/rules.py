"""Checks for every Produce, cached or not."""

from typing import Final

from broker.api.requests.context import RequestContext
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ApiError, ErrorCode, RecordsRefused
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.metadata.image import is_internal
from broker.partitions.partitions import HostedTopic, Partitions
from broker.protocol.messages.produce import BatchIndexAndErrorMessage, ProduceRequest, TopicProduceData
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

ZSTD_SINCE: Final = 7
"""First version of Produce that allows zstd. (KIP-110)"""


ACKS: Final = (1, -1, 0)


def refusal_of(message: ProduceRequest) -> ErrorCode:
    """Return why the whole request is refused, or NONE."""
    if message.acks not in ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    return ErrorCode.NONE


def hosted_topic(topic: TopicProduceData, partitions: Partitions) -> HostedTopic | None:
    """Return the topic by id if the request has one (version 13), else by name."""
    if topic.topic_id != ZERO_UUID:
        return partitions.by_id.get(topic.topic_id)
    return partitions.by_name.get(topic.name)


def topic_refusal(
    topic: TopicProduceData,
    hosted: HostedTopic | None,
    context: RequestContext,
    security: ClientSecurity,
    *,
    logs: bool = True,
) -> ErrorCode:
    """Return why nothing can be appended to this topic, or NONE. `logs`: see `ClientSecurity.allows`."""
    if hosted is None and topic.topic_id != ZERO_UUID:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = topic.name if hosted is None else hosted.name
    if not security.allows_topic(context, Operation.WRITE, name, logs=logs):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if is_internal(hosted.name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE


def needs_full_handler(hosted: HostedTopic) -> bool:
    """Return whether no client may write to the topic, or its batches are compressed anew."""
    return is_internal(hosted.name) or hosted.settings.recompresses


def record_errors(error: ApiError) -> list[BatchIndexAndErrorMessage]:
    """Return the records that are the reason of a refusal, if the error names them."""
    if not isinstance(error, RecordsRefused):
        return []
    return [BatchIndexAndErrorMessage(index, why) for index, why in error.records]


OF_LOG: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""Errors that a log finds, and not the validation before it."""


def response_log_start_offset(error: ApiError, log: PartitionLog) -> int:
    """Return the log start offset for the response to a refused append, or -1: Kafka sends it if its log
    found the error. (ReplicaManager.appendToLocalLog)
    """
    return log.log_start_offset if error.code in OF_LOG or isinstance(error, RecordsRefused) else -1


def append_error(log: PartitionLog, staged: Staged) -> ErrorCode:
    """Return the error of an append at response time: its write or its flush may have failed."""
    if staged.error is not None:
        return staged.error
    return ErrorCode.NONE if log.offline is None else ErrorCode.KAFKA_STORAGE_ERROR
