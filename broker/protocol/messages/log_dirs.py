"""Log dirs, API keys 34, 35. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

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


class DescribableLogDirTopic(Struct):
    topic: str = field("string", 1, 5)
    partitions: list[int] = field("int32", 1, 5, array=True)


class DescribeLogDirsRequest(Message, api_key=35, versions=(1, 5), flexible=2):
    topics: list[DescribableLogDirTopic] | None = field(DescribableLogDirTopic, 1, 5, array=True, nullable=1)


class DescribeLogDirsPartition(Struct):
    partition_index: int = field("int32", 1, 5)
    partition_size: int = field("int64", 1, 5)
    offset_lag: int = field("int64", 1, 5)
    is_future_key: bool = field("bool", 1, 5)


class DescribeLogDirsTopic(Struct):
    name: str = field("string", 1, 5)
    partitions: list[DescribeLogDirsPartition] = field(DescribeLogDirsPartition, 1, 5, array=True)


class DescribeLogDirsResult(Struct):
    error_code: int = field("int16", 1, 5)
    log_dir: str = field("string", 1, 5)
    topics: list[DescribeLogDirsTopic] = field(DescribeLogDirsTopic, 1, 5, array=True)
    total_bytes: int = field("int64", 4, 5, default=-1)
    usable_bytes: int = field("int64", 4, 5, default=-1)
    is_cordoned: bool = field("bool", 5, 5)


class DescribeLogDirsResponse(Message, api_key=35, versions=(1, 5), flexible=2):
    throttle_time_ms: int = field("int32", 1, 5)
    error_code: int = field("int16", 3, 5)
    results: list[DescribeLogDirsResult] = field(DescribeLogDirsResult, 1, 5, array=True)
