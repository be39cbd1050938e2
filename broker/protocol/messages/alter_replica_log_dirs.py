"""Alter replica log dirs, API key 34. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field("string", 1, 2)
    partitions: list[int] = field("int32", 1, 2, array=True)


class AlterReplicaLogDir(Struct):
    path: str = field("string", 1, 2)
    topics: list[AlterReplicaLogDirTopic] = field(AlterReplicaLogDirTopic, 1, 2, array=True)


class AlterReplicaLogDirsRequest(Message, api_key=34, versions=(1, 2), flexible=2):
    dirs: list[AlterReplicaLogDir] = field(AlterReplicaLogDir, 1, 2, array=True)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field("string", 1, 2)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(
        AlterReplicaLogDirPartitionResult, 1, 2, array=True
    )


class AlterReplicaLogDirsResponse(Message, api_key=34, versions=(1, 2), flexible=2):
    throttle_time_ms: int = field("int32", 1, 2)
    results: list[AlterReplicaLogDirTopicResult] = field(AlterReplicaLogDirTopicResult, 1, 2, array=True)
