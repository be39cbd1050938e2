"""Delete records, API key 21. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DeleteRecordsPartition(Struct):
    partition_index: int = field("int32", 0, 2)
    offset: int = field("int64", 0, 2)


class DeleteRecordsTopic(Struct):
    name: str = field("string", 0, 2)
    partitions: list[DeleteRecordsPartition] = field(DeleteRecordsPartition, 0, 2, array=True)


class DeleteRecordsRequest(Message, api_key=21, versions=(0, 2), flexible=2):
    topics: list[DeleteRecordsTopic] = field(DeleteRecordsTopic, 0, 2, array=True)
    timeout_ms: int = field("int32", 0, 2)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field("int32", 0, 2)
    low_watermark: int = field("int64", 0, 2)
    error_code: int = field("int16", 0, 2)


class DeleteRecordsTopicResult(Struct):
    name: str = field("string", 0, 2)
    partitions: list[DeleteRecordsPartitionResult] = field(DeleteRecordsPartitionResult, 0, 2, array=True)


class DeleteRecordsResponse(Message, api_key=21, versions=(0, 2), flexible=2):
    throttle_time_ms: int = field("int32", 0, 2)
    topics: list[DeleteRecordsTopicResult] = field(DeleteRecordsTopicResult, 0, 2, array=True)
