"""ListOffsets: looks up the earliest, the latest or a timestamp's offset of a partition.

Versions 1-11. Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (from
version 7), -4 the earliest on this broker's disk (from 8), -5 the latest in tiered storage (from 9) and -6
the earliest that is to be moved there (from 11, KIP-1023), both always offset -1. A special timestamp in an
older version, and any other one below 0, is UNSUPPORTED_VERSION; a repeated partition has one entry, with
INVALID_REQUEST. With isolation level 1 (from 2), records from the last stable offset on are left out, and
that offset is the latest. Left out: followers (a replica id is treated as a consumer); `timeout_ms` (from
10), because there is no remote storage.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import emptied
from broker.api.requests.services import PartitionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.log.partition import PartitionLog
from broker.partitions.fetching import check_epoch
from broker.partitions.partitions import LEADER_EPOCH, HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.security.acl.acl import Operation

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""First version that supports each special timestamp."""
NEVER: Final = 1 << 15
"""Greater than every version."""

NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
READ_COMMITTED: Final = 1


@api(ApiKey.LIST_OFFSETS, versions=(1, 11), services=PartitionServices)
def handle(
    message: ListOffsetsRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    repeated = yield from _repeated(message)
    topics = []
    for topic in message.topics:
        hosted = services.partitions.by_name.get(topic.name)
        is_allowed = services.security.allows_topic(context, Operation.DESCRIBE, topic.name)
        responses = []
        for each in topic.partitions:
            yield None
            if not is_allowed:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif (is_new := repeated.get((topic.name, each.partition_index))) is not None:
                if not is_new:
                    continue
                repeated[topic.name, each.partition_index] = False
                error = ErrorCode.INVALID_REQUEST
            elif each.timestamp < 0 and SINCE.get(each.timestamp, NEVER) > context.api_version:
                error = ErrorCode.UNSUPPORTED_VERSION
            else:
                yield None
                responses.append((yield from _response(each, hosted, message.isolation_level)))
                continue
            responses.append(ListOffsetsPartitionResponse(each.partition_index, error))
        if responses or not topic.partitions:
            topics.append(ListOffsetsTopicResponse(topic.name, responses))
        yield None
    return Response(ListOffsetsResponse(topics=topics))


def _repeated(message: ListOffsetsRequest) -> Slices[dict[tuple[str, int], bool]]:
    """Return the partitions that the request names more than once, each with True: it is not answered yet."""
    seen: set[tuple[str, int]] = set()
    twice: dict[tuple[str, int], bool] = {}
    for topic in message.topics:
        for each in topic.partitions:
            partition = (topic.name, each.partition_index)
            if partition in seen:
                twice[partition] = True
            else:
                seen.add(partition)
            yield None
        yield None
    yield from emptied(seen)
    return twice


def _response(
    requested: ListOffsetsPartition, hosted: HostedTopic | None, isolation: int
) -> Slices[ListOffsetsPartitionResponse]:
    response = ListOffsetsPartitionResponse(requested.partition_index)
    try:
        log = None if hosted is None else hosted.log(requested.partition_index)
        if log is None:
            response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return response
        log.check_usable()
        if error := check_epoch(requested.current_leader_epoch):
            response.error_code = error
        else:
            response.timestamp, response.offset = yield from _find(requested.timestamp, log, isolation)
            response.leader_epoch = -1 if response.offset == NO_OFFSET else LEADER_EPOCH
    except ApiError as refused:
        response.error_code = refused.code
    return response


def _end_of(log: PartitionLog, isolation: int) -> int:
    return log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark


def _find(timestamp: int, log: PartitionLog, isolation: int) -> Slices[tuple[int, int]]:
    """Return timestamp and offset, or -1 for both if no record has this timestamp or a later one."""
    if timestamp == LATEST:
        return NO_TIMESTAMP, _end_of(log, isolation)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return NO_TIMESTAMP, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NO_TIMESTAMP, NO_OFFSET
    search = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    found = yield from search
    if found is None:
        return NO_TIMESTAMP, NO_OFFSET
    offset, found_timestamp = found
    if offset >= _end_of(log, isolation):
        return NO_TIMESTAMP, NO_OFFSET
    return found_timestamp, offset
