"""Produce, API key 0. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class PartitionProduceData(Struct):
    index: int = field("int32", 3, 13)
    records: Buffer | None = field("records", 3, 13, nullable=3)


class TopicProduceData(Struct):
    name: str = field("string", 3, 12)
    topic_id: bytes = field("uuid", 13, 13)
    partition_data: list[PartitionProduceData] = field(PartitionProduceData, 3, 13, array=True)


class ProduceRequest(Message, api_key=0, versions=(3, 13), flexible=9):
    transactional_id: str | None = field("string", 3, 13, nullable=3)
    acks: int = field("int16", 3, 13)
    timeout_ms: int = field("int32", 3, 13)
    topic_data: list[TopicProduceData] = field(TopicProduceData, 3, 13, array=True)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field("int32", 8, 13)
    batch_index_error_message: str | None = field("string", 8, 13, nullable=8)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", 10, 13, default=-1)
    leader_epoch: int = field("int32", 10, 13, default=-1)


class PartitionProduceResponse(Struct):
    index: int = field("int32", 3, 13)
    error_code: int = field("int16", 3, 13)
    base_offset: int = field("int64", 3, 13)
    log_append_time_ms: int = field("int64", 3, 13, default=-1)
    log_start_offset: int = field("int64", 5, 13, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(BatchIndexAndErrorMessage, 8, 13, array=True)
    error_message: str | None = field("string", 8, 13, nullable=8)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, 10, 13, tag=0)


class TopicProduceResponse(Struct):
    name: str = field("string", 3, 12)
    topic_id: bytes = field("uuid", 13, 13)
    partition_responses: list[PartitionProduceResponse] = field(PartitionProduceResponse, 3, 13, array=True)


class NodeEndpoint(Struct):
    node_id: int = field("int32", 10, 13)
    host: str = field("string", 10, 13)
    port: int = field("int32", 10, 13)
    rack: str | None = field("string", 10, 13, nullable=10)


class ProduceResponse(Message, api_key=0, versions=(3, 13), flexible=9):
    responses: list[TopicProduceResponse] = field(TopicProduceResponse, 3, 13, array=True)
    throttle_time_ms: int = field("int32", 3, 13)
    node_endpoints: list[NodeEndpoint] = field(NodeEndpoint, 10, 13, array=True, tag=0)
