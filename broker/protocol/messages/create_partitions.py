"""Create partitions, API key 37. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field("int32", 0, 3, array=True)


class CreatePartitionsTopic(Struct):
    name: str = field("string", 0, 3)
    count: int = field("int32", 0, 3)
    assignments: list[CreatePartitionsAssignment] | None = field(
        CreatePartitionsAssignment, 0, 3, array=True, nullable=0
    )


class CreatePartitionsRequest(Message, api_key=37, versions=(0, 3), flexible=2):
    topics: list[CreatePartitionsTopic] = field(CreatePartitionsTopic, 0, 3, array=True)
    timeout_ms: int = field("int32", 0, 3)
    validate_only: bool = field("bool", 0, 3)


class CreatePartitionsTopicResult(Struct):
    name: str = field("string", 0, 3)
    error_code: int = field("int16", 0, 3)
    error_message: str | None = field("string", 0, 3, nullable=0)


class CreatePartitionsResponse(Message, api_key=37, versions=(0, 3), flexible=2):
    throttle_time_ms: int = field("int32", 0, 3)
    results: list[CreatePartitionsTopicResult] = field(CreatePartitionsTopicResult, 0, 3, array=True)
