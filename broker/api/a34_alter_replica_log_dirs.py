"""AlterReplicaLogDirs: moves partitions to other directories of log.dirs without stopping writes. (KIP-113)

Versions 1-2. The response does not wait for the move; DescribeLogDirs shows its progress. Naming the current
directory cancels a running move; naming another directory replaces it. Each partition has its own error:
LOG_DIR_NOT_FOUND for a path that is not in log.dirs as DescribeLogDirs writes it; INVALID_REPLICA_ASSIGNMENT
for a cordoned directory (KIP-1066); KAFKA_STORAGE_ERROR for an offline directory or partition, or a disk
error; INVALID_TOPIC_EXCEPTION for a topic name too long for the
copy's directory. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION; its creation will use the
directory.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import PartitionServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.partitions.partitions import HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from broker.security.acl.acl import Operation


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), services=PartitionServices)
def handle(
    message: AlterReplicaLogDirsRequest, context: RequestContext, services: PartitionServices
) -> Slices[Outcome]:
    allowed = services.security.permits(context, Operation.ALTER)
    results: dict[str, dict[int, ErrorCode]] = {}
    for requested in message.dirs:
        for topic in requested.topics:
            of_topic = results.setdefault(topic.name, {})
            hosted = services.partitions.by_name.get(topic.name)
            for index in topic.partitions:
                if allowed:
                    of_topic[index] = yield from _move(topic.name, hosted, index, requested.path, services)
                else:
                    of_topic[index] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                yield None
            yield None
        yield None
    topics = []
    for name, partitions in results.items():
        responses = yield from mapped(
            lambda each: AlterReplicaLogDirPartitionResult(*each), partitions.items()
        )
        topics.append(AlterReplicaLogDirTopicResult(name, responses))
        yield None
    return Response(AlterReplicaLogDirsResponse(results=topics))


def _move(
    topic: str,
    hosted: HostedTopic | None,
    index: int,
    path: str,
    services: PartitionServices,
) -> Slices[ErrorCode]:
    """Start or cancel a move; the creation of the log and that of the copy have a slice each."""
    store = services.partitions.store
    try:
        target = store.directories.named(path)
        if store.directories.is_cordoned(target):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        yield None
        log = None if hosted is None else hosted.log(index)
        if log is None:
            store.directories.prefer(topic, index, target)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        store.move(log, target)
        yield None
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE
