"""Read share group state, API key 84. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: int = field("int32", 0, 0)
    leader_epoch: int = field("int32", 0, 0)


class ReadStateData(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionData] = field(PartitionData, 0, 0, array=True)


class ReadShareGroupStateRequest(Message, api_key=84, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[ReadStateData] = field(ReadStateData, 0, 0, array=True)


class StateBatch(Struct):
    first_offset: int = field("int64", 0, 0)
    last_offset: int = field("int64", 0, 0)
    delivery_state: int = field("int8", 0, 0)
    delivery_count: int = field("int16", 0, 0)


class PartitionResult(Struct):
    partition: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    state_epoch: int = field("int32", 0, 0)
    start_offset: int = field("int64", 0, 0)
    state_batches: list[StateBatch] = field(StateBatch, 0, 0, array=True)


class ReadStateResult(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionResult] = field(PartitionResult, 0, 0, array=True)


class ReadShareGroupStateResponse(Message, api_key=84, versions=(0, 0), flexible=0):
    results: list[ReadStateResult] = field(ReadStateResult, 0, 0, array=True)
