"""Initialize share group state, API key 83. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: int = field("int32", 0, 0)
    state_epoch: int = field("int32", 0, 0)
    start_offset: int = field("int64", 0, 0)


class InitializeStateData(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionData] = field(PartitionData, 0, 0, array=True)


class InitializeShareGroupStateRequest(Message, api_key=83, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[InitializeStateData] = field(InitializeStateData, 0, 0, array=True)


class PartitionResult(Struct):
    partition: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class InitializeStateResult(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionResult] = field(PartitionResult, 0, 0, array=True)


class InitializeShareGroupStateResponse(Message, api_key=83, versions=(0, 0), flexible=0):
    results: list[InitializeStateResult] = field(InitializeStateResult, 0, 0, array=True)
