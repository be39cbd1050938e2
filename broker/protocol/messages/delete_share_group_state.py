"""Delete share group state, API key 86. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class PartitionData(Struct):
    __slots__ = ("partition",)
    FIELDS = (Field("partition", "int32", 0, 0),)

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition


class DeleteStateData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", PartitionData, 0, 0, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionData] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class DeleteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 86
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("topics", DeleteStateData, 0, 0, array=True),
    )

    def __init__(self, group_id: str = "", topics: list[DeleteStateData] | None = None) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message")
    FIELDS = (
        Field("partition", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
    )

    def __init__(self, partition: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class DeleteStateResult(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", PartitionResult, 0, 0, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[PartitionResult] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class DeleteShareGroupStateResponse(Message):
    __slots__ = ("results",)
    API_KEY = 86
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (Field("results", DeleteStateResult, 0, 0, array=True),)

    def __init__(self, results: list[DeleteStateResult] | None = None) -> None:
        self.results = [] if results is None else results
