"""Read share group state summary, API key 87. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: int = field("int32", 0, 1)
    leader_epoch: int = field("int32", 0, 1)


class ReadStateSummaryData(Struct):
    topic_id: bytes = field("uuid", 0, 1)
    partitions: list[PartitionData] = field(PartitionData, 0, 1, array=True)


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions=(0, 1), flexible=0):
    group_id: str = field("string", 0, 1)
    topics: list[ReadStateSummaryData] = field(ReadStateSummaryData, 0, 1, array=True)


class PartitionResult(Struct):
    partition: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    state_epoch: int = field("int32", 0, 1)
    leader_epoch: int = field("int32", 0, 1)
    start_offset: int = field("int64", 0, 1)
    delivery_complete_count: int = field("int32", 1, 1, default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = field("uuid", 0, 1)
    partitions: list[PartitionResult] = field(PartitionResult, 0, 1, array=True)


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions=(0, 1), flexible=0):
    results: list[ReadStateSummaryResult] = field(ReadStateSummaryResult, 0, 1, array=True)
