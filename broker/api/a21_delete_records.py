"""DeleteRecords: advances a partition's log start offset and deletes the records before it.

Versions 0-2. Offset -1 means the high watermark. An offset outside the log is OFFSET_OUT_OF_RANGE; internal
topics (INVALID_TOPIC_EXCEPTION) and compact-only topics (POLICY_VIOLATION) are refused, as in Kafka. The low
watermark of the response is the new log start offset, or -1 with an error. When the response is sent, the new
offset survives the end of the process; it is on the disk after log.flush.offset.checkpoint.interval.ms.
"""

from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import PartitionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.metadata.image import is_internal
from broker.partitions.partitions import HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.security.acl.acl import Operation

HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


@api(ApiKey.DELETE_RECORDS, versions=(0, 2), services=PartitionServices)
def handle(
    message: DeleteRecordsRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    security = services.security
    may_delete = security.permits(context, authorized=True)
    results = []
    for topic in message.topics:
        hosted = services.partitions.by_name.get(topic.name)
        allowed = may_delete and security.allows_topic(context, Operation.DELETE, topic.name)
        refusal = _refusal(topic.name, hosted, allowed)
        if refusal or hosted is None:
            responses = yield from mapped(partial(_refused, refusal), topic.partitions)
        else:
            responses = []
            for each in topic.partitions:
                responses.append((yield from _delete(hosted, each)))
        yield None
        results.append(DeleteRecordsTopicResult(topic.name, responses))
    return Response(DeleteRecordsResponse(topics=results))


def _refusal(name: str, hosted: HostedTopic | None, allowed: bool) -> ErrorCode:
    if not allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if hosted is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION if is_internal(name) else ErrorCode.NONE


def _refused(refusal: ErrorCode, requested: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(requested.partition_index, NO_LOW_WATERMARK, refusal)


def _delete(hosted: HostedTopic, requested: DeleteRecordsPartition) -> Slices[DeleteRecordsPartitionResult]:
    response = DeleteRecordsPartitionResult(requested.partition_index, NO_LOW_WATERMARK)
    yield None
    try:
        log = hosted.log(requested.partition_index)
        if log is None:
            response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not log.settings.deletes:
            response.error_code = ErrorCode.POLICY_VIOLATION
        else:
            offset = log.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
            response.low_watermark = log.delete_records_before(offset)
            yield None
    except ApiError as refused:
        response.error_code = refused.code
    return response
