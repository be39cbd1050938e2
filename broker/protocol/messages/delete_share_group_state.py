"""Delete share group state, API key 86. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class PartitionData(Struct):
    partition: int = field("int32", 0, 0)


class DeleteStateData(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionData] = field(PartitionData, 0, 0, array=True)


class DeleteShareGroupStateRequest(Message, api_key=86, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[DeleteStateData] = field(DeleteStateData, 0, 0, array=True)


class PartitionResult(Struct):
    partition: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class DeleteStateResult(Struct):
    topic_id: bytes = field("uuid", 0, 0)
    partitions: list[PartitionResult] = field(PartitionResult, 0, 0, array=True)


class DeleteShareGroupStateResponse(Message, api_key=86, versions=(0, 0), flexible=0):
    results: list[DeleteStateResult] = field(DeleteStateResult, 0, 0, array=True)
