"""DescribeLogDirs: the partitions of each log directory with their sizes and moves.

Versions 1-4. A null topic list selects all. Every directory has an entry, even an empty one: the Java client
takes a response without entries for an authorization error. An offline directory is KAFKA_STORAGE_ERROR. The
copy of a moving partition is a future replica; its lag is the missing bytes, to within an index entry.
Version 4 adds the total and usable bytes of the volume. (KIP-113, KIP-827)
"""

from collections.abc import Awaitable, Collection

from broker.api.context import RequestContext
from broker.api.outcome import Outcome, Response, in_slices
from broker.api.pacing import Pace
from broker.api.registry import api
from broker.api.services import PartitionServices
from broker.authorization.acl import Operation
from broker.errors import ErrorCode
from broker.log import disk
from broker.log.directories import LogDirectory
from broker.log.moves import Move
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.records.slices import Slices

Requested = Collection[tuple[str, int]] | None


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4), services=PartitionServices)
def handle(
    message: DescribeLogDirsRequest, context: RequestContext, services: PartitionServices
) -> Outcome | Awaitable[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return Response(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return in_slices(_respond(message, services))


def _respond(message: DescribeLogDirsRequest, services: PartitionServices) -> Slices[Outcome]:
    pace = Pace()
    store = services.partitions.store
    requested: set[tuple[str, int]] | None = None
    if message.topics is not None:
        requested = set()
        for each in message.topics:
            for index in each.partitions:
                if store.partition(each.topic, index) is not None:
                    requested.add((each.topic, index))
                if pace.spent():
                    yield None
            if pace.spent():
                yield None
    results = []
    for directory in store.directories:
        results.append((yield from _described(directory, store, requested, pace)))
    return Response(DescribeLogDirsResponse(results=results))


def _described(
    directory: LogDirectory, store: LogStore, requested: Requested, pace: Pace
) -> Slices[DescribeLogDirsResult]:
    result = DescribeLogDirsResult(ErrorCode.NONE, directory.path)
    try:
        if directory.offline is not None:
            raise directory.offline
        result.total_bytes, result.usable_bytes = disk.space(directory.path)
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for log in list(store):  # it may change between two slices
            if pace.spent():
                yield None
            if _is_requested(log, requested) and store.directories.of(log) is directory:
                described = DescribeLogDirsPartition(log.index, log.size, 0, False)
                topics.setdefault(log.topic, []).append(described)
        for move in store.moves.running.values():
            if _is_requested(move.partition, requested) and move.target is directory:
                topics.setdefault(move.partition.topic, []).append(_future(move))
    except OSError:
        return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
    result.topics = [DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()]
    return result


def _is_requested(log: PartitionLog, requested: Requested) -> bool:
    return requested is None or (log.topic, log.index) in requested


def _future(move: Move) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(move.partition.index, move.size, move.lag, True)
