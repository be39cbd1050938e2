"""Read share group state summary, API key 87. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class PartitionData(Struct):
    __slots__ = ("partition", "leader_epoch")
    FIELDS = (
        Field("partition", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    )

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 1),
        Field("partitions", PartitionData, 0, 1, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ReadShareGroupStateSummaryRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 1),
        Field("topics", ReadStateSummaryData, 0, 1, array=True),
    )

    def __init__(self, group_id: str = "", topics: list[ReadStateSummaryData] | None = None) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class PartitionResult(Struct):
    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
    )
    FIELDS = (
        Field("partition", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("state_epoch", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("start_offset", "int64", 0, 1),
        Field("delivery_complete_count", "int32", 1, 1, default=-1),
    )

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadStateSummaryResult(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 1),
        Field("partitions", PartitionResult, 0, 1, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ("results",)
    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (Field("results", ReadStateSummaryResult, 0, 1, array=True),)

    def __init__(self, results: list[ReadStateSummaryResult] | None = None) -> None:
        self.results = [] if results is None else results
