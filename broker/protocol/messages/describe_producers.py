"""Describe producers, API key 61. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TopicRequest(Struct):
    name: str = field("string", 0, 0)
    partition_indexes: list[int] = field("int32", 0, 0, array=True)


class DescribeProducersRequest(Message, api_key=61, versions=(0, 0), flexible=0):
    topics: list[TopicRequest] = field(TopicRequest, 0, 0, array=True)


class ProducerState(Struct):
    producer_id: int = field("int64", 0, 0)
    producer_epoch: int = field("int32", 0, 0)
    last_sequence: int = field("int32", 0, 0, default=-1)
    last_timestamp: int = field("int64", 0, 0, default=-1)
    coordinator_epoch: int = field("int32", 0, 0)
    current_txn_start_offset: int = field("int64", 0, 0, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    active_producers: list[ProducerState] = field(ProducerState, 0, 0, array=True)


class TopicResponse(Struct):
    name: str = field("string", 0, 0)
    partitions: list[PartitionResponse] = field(PartitionResponse, 0, 0, array=True)


class DescribeProducersResponse(Message, api_key=61, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    topics: list[TopicResponse] = field(TopicResponse, 0, 0, array=True)
