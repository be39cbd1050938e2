"""AlterReplicaLogDirs: moves partitions to other directories of log.dirs while they are written to. (KIP-113)

Versions 1-2. A move is begun and not waited for; DescribeLogDirs shows how far it is. Where the partition
lies already, a running move ends; another directory replaces it. Errors are of single partitions:
LOG_DIR_NOT_FOUND for a path that is not one of log.dirs, written as DescribeLogDirs has it;
KAFKA_STORAGE_ERROR for a directory or a partition that is offline, or a disk that refuses;
INVALID_TOPIC_EXCEPTION for a name too long for the copy's directory. A partition that does not exist is
REPLICA_NOT_AVAILABLE, and will be made in the directory.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2))
def handle(message: AlterReplicaLogDirsRequest, context: RequestContext, broker: Broker) -> Outcome:
    allowed = wire_actor(context, broker).role >= Role.ADMIN
    results: dict[str, dict[int, ErrorCode]] = {}
    for asked in message.dirs:
        for topic in asked.topics:
            of_topic = results.setdefault(topic.name, {})
            for index in topic.partitions:
                of_topic[index] = (
                    _move(topic.name, index, asked.path, broker)
                    if allowed
                    else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                )
    return Answered(
        AlterReplicaLogDirsResponse(
            results=[
                AlterReplicaLogDirTopicResult(
                    name, [AlterReplicaLogDirPartitionResult(*each) for each in partitions.items()]
                )
                for name, partitions in results.items()
            ]
        )
    )


def _move(topic: str, index: int, path: str, broker: Broker) -> ErrorCode:
    store = broker.partitions.store
    try:
        target = store.directories.named(path)
        log = broker.partitions.log(topic, index)
        if log is None:
            store.directories.prefer(topic, index, target)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        store.move(log, target)
    except ApiError as refused:
        return refused.code
    return ErrorCode.NONE
