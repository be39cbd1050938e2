"""Write txn markers, API key 27. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class WritableTxnMarkerTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        Field("name", "string", 1, 2),
        Field("partition_indexes", "int32", 1, 2, array=True),
    )

    def __init__(self, name: str = "", partition_indexes: list[int] | None = None) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is None else partition_indexes


class WritableTxnMarker(Struct):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )
    FIELDS = (
        Field("producer_id", "int64", 1, 2),
        Field("producer_epoch", "int16", 1, 2),
        Field("transaction_result", "bool", 1, 2),
        Field("topics", WritableTxnMarkerTopic, 1, 2, array=True),
        Field("coordinator_epoch", "int32", 1, 2),
        Field("transaction_version", "int8", 2, 2),
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] | None = None,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is None else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Message):
    __slots__ = ("markers",)
    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE = 1
    FIELDS = (Field("markers", WritableTxnMarker, 1, 2, array=True),)

    def __init__(self, markers: list[WritableTxnMarker] | None = None) -> None:
        self.markers = [] if markers is None else markers


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "int16", 1, 2),
    )

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 1, 2),
        Field("partitions", WritableTxnMarkerPartitionResult, 1, 2, array=True),
    )

    def __init__(
        self, name: str = "", partitions: list[WritableTxnMarkerPartitionResult] | None = None
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics")
    FIELDS = (
        Field("producer_id", "int64", 1, 2),
        Field("topics", WritableTxnMarkerTopicResult, 1, 2, array=True),
    )

    def __init__(
        self, producer_id: int = 0, topics: list[WritableTxnMarkerTopicResult] | None = None
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is None else topics


class WriteTxnMarkersResponse(Message):
    __slots__ = ("markers",)
    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE = 1
    FIELDS = (Field("markers", WritableTxnMarkerResult, 1, 2, array=True),)

    def __init__(self, markers: list[WritableTxnMarkerResult] | None = None) -> None:
        self.markers = [] if markers is None else markers
