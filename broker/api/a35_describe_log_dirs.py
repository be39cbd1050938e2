"""DescribeLogDirs: the partitions of each log directory with their sizes and moves.

Versions 1-5. A null topic list selects all. Every directory has an entry, even an empty one: the Java client
takes a response without entries for an authorization error. An offline directory is KAFKA_STORAGE_ERROR. The
copy of a moving partition is a future replica; its lag is the missing bytes, to within an index entry. A
partition that has no files yet has size 0, in the directory where the next new partition goes. Version 4 adds
the total and usable bytes of the volume, and 5 whether the directory gets no new partitions (KIP-1066).
(KIP-113, KIP-827)
"""

from collections.abc import Collection, Iterable

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import PartitionServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.log import disk
from broker.log.directories import LogDirectory
from broker.log.moves import Move
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.partitions.partitions import Partitions
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from broker.security.acl.acl import Operation

Requested = Collection[tuple[str, int]] | None
Described = dict[str, list[DescribeLogDirsPartition]]
"""By topic."""


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5), services=PartitionServices)
def handle(
    message: DescribeLogDirsRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return Response(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    partitions = services.partitions
    requested: set[tuple[str, int]] | None = None
    if message.topics is not None:
        requested = set()
        for each in message.topics:
            hosted = partitions.by_name.get(each.topic)
            for index in each.partitions:
                if hosted is not None and 0 <= index < hosted.count:
                    requested.add((each.topic, index))
                yield None
            yield None
    without_files = yield from _without_files(partitions, requested)
    results = []
    for directory in partitions.store.directories:
        topics = without_files.get(directory, {})
        results.append((yield from _described(directory, partitions.store, requested, topics)))
    return Response(DescribeLogDirsResponse(results=results))


def _without_files(partitions: Partitions, requested: Requested) -> Slices[dict[LogDirectory, Described]]:
    """Return the requested partitions that have no files, by the directory where they would be created."""
    store = partitions.store
    found: dict[LogDirectory, Described] = {}
    if not store.directories.online:
        return found
    for name, index in _keys(partitions, requested):
        hosted = partitions.by_name.get(name)
        if hosted is not None and hosted.makes_log(index) and store.partition(name, index) is None:
            topics = found.setdefault(store.directories.next_place(name, index), {})
            topics.setdefault(name, []).append(DescribeLogDirsPartition(index, 0, 0, False))
        yield None
    return found


def _keys(partitions: Partitions, requested: Requested) -> Iterable[tuple[str, int]]:
    if requested is not None:
        return requested
    topics = list(partitions.by_name.values())  # it may change between two slices
    return ((topic.name, index) for topic in topics for index in range(topic.count))


def _described(
    directory: LogDirectory, store: LogStore, requested: Requested, topics: Described
) -> Slices[DescribeLogDirsResult]:
    """Describe one directory; `topics` has its partitions without files, to which the others are added."""
    result = DescribeLogDirsResult(ErrorCode.NONE, directory.path)
    try:
        if directory.offline is not None:
            raise directory.offline
        result.is_cordoned = store.directories.is_cordoned(directory)
        result.total_bytes, result.usable_bytes = disk.space(directory.path)
        for log in list(store):  # it may change between two slices
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
