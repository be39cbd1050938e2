"""Read share group state, API key 84. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class PartitionData(Struct):
    __slots__ = ("partition", "leader_epoch")
    FIELDS = (
        Field("partition", "int32", 0, 0),
        Field("leader_epoch", "int32", 0, 0),
    )

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", PartitionData, 0, 0, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ReadShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("topics", ReadStateData, 0, 0, array=True),
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateData] | None = None) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    FIELDS = (
        Field("first_offset", "int64", 0, 0),
        Field("last_offset", "int64", 0, 0),
        Field("delivery_state", "int8", 0, 0),
        Field("delivery_count", "int16", 0, 0),
    )

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_state: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")
    FIELDS = (
        Field("partition", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("state_epoch", "int32", 0, 0),
        Field("start_offset", "int64", 0, 0),
        Field("state_batches", StateBatch, 0, 0, array=True),
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is None else state_batches


class ReadStateResult(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", PartitionResult, 0, 0, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results",)
    API_KEY = 84
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (Field("results", ReadStateResult, 0, 0, array=True),)

    def __init__(self, results: list[ReadStateResult] | None = None) -> None:
        self.results = [] if results is None else results
