"""WriteTxnMarkers: ends a producer's transaction in partitions, on behalf of a coordinator or an operator.

Versions 1-2. kafka-transactions.sh aborts a transaction with it that its coordinator no longer knows.
Requires the admin role. A producer id or epoch below 0 is INVALID_REQUEST (Kafka: UNKNOWN_SERVER_ERROR), an
epoch that is too old INVALID_PRODUCER_EPOCH, one of an earlier coordinator TRANSACTION_COORDINATOR_FENCED. A
marker without a transaction sets the producer's epoch only. Each partition succeeds or fails alone. Version 2
has the transaction's version: from 2 on, the epoch must be higher than that of the ongoing transaction
(KIP-1228).
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, Sliced, StagedAppends
from broker.api.requests.services import TransactionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.records.control import Marker
from broker.security.acl.acl import Operation

AT_ONCE: Final = 64
"""Markers written in one commit; ours. One takes 15 microseconds."""

MarkerToWrite = tuple[WritableTxnMarker, str, WritableTxnMarkerPartitionResult]
"""A marker, its topic, and the result of its partition."""


@api(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), services=TransactionServices)
def handle(
    message: WriteTxnMarkersRequest, context: RequestContext, services: TransactionServices
) -> Slices[Outcome]:
    error = ErrorCode.NONE
    security = services.security
    needed = Operation.ALTER
    if not security.allows_cluster(context, needed, logs=False):
        needed = Operation.CLUSTER_ACTION
    if not security.permits(context, needed):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    wanted: list[MarkerToWrite] = []
    results = []
    for marker in message.markers:
        topics = []
        for topic in marker.topics:
            partitions = []
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(index, error)
                partitions.append(result)
                if not error:
                    wanted.append((marker, topic.name, result))
                yield None
            topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
            yield None
        results.append(WritableTxnMarkerResult(marker.producer_id, topics))
        yield None
    reply = WriteTxnMarkersResponse(results)
    if not wanted:
        return Response(reply)
    wanted.reverse()
    return (yield from _write(wanted, reply, context, services))


def _write(
    wanted: list[MarkerToWrite],
    reply: WriteTxnMarkersResponse,
    context: RequestContext,
    services: TransactionServices,
) -> Slices[Outcome]:
    """Stage the last markers of `wanted`, and the others after their commit."""
    yield from ()
    written: list[tuple[WritableTxnMarker, PartitionLog, Staged, WritableTxnMarkerPartitionResult]] = []
    some = wanted[: -AT_ONCE - 1 : -1]
    del wanted[-AT_ONCE:]
    for marker, topic, result in some:
        try:
            log = services.partitions.log(topic, result.partition_index)
            if log is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            if marker.producer_id < 0 or marker.producer_epoch < 0:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            kind = Marker(marker.transaction_result, marker.coordinator_epoch, marker.transaction_version)
            staged = log.stage_marker(kind, marker.producer_id, marker.producer_epoch, context.wall_ms)
        except ApiError as error:
            result.error_code = error.code
        else:
            written.append((marker, log, staged, result))

    def settle() -> Outcome:
        for marker, log, staged, result in written:
            result.error_code = staged.error or ErrorCode.NONE
            if not result.error_code:
                is_commit = marker.transaction_result
                services.transactions.marked(log, marker.producer_id, is_commit=is_commit)
                services.fetches.complete(log)
        if not wanted:
            return Response(reply)
        return Sliced(_write(wanted, reply, context, services), None, reply, wanted)

    return StagedAppends([log for _, log, _, _ in written], settle) if written else settle()
