"""Alter partition, API key 56. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class BrokerState(Struct):
    __slots__ = ("broker_id", "broker_epoch")
    FIELDS = (
        Field("broker_id", "int32", 3, 3),
        Field("broker_epoch", "int64", 3, 3, default=-1),
    )

    def __init__(self, broker_id: int = 0, broker_epoch: int = -1) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class RequestPartitionData(Struct):
    __slots__ = (
        "partition_index",
        "leader_epoch",
        "new_isr",
        "new_isr_with_epochs",
        "leader_recovery_state",
        "partition_epoch",
    )
    FIELDS = (
        Field("partition_index", "int32", 2, 3),
        Field("leader_epoch", "int32", 2, 3),
        Field("new_isr", "int32", 2, 2, array=True),
        Field("new_isr_with_epochs", BrokerState, 3, 3, array=True),
        Field("leader_recovery_state", "int8", 2, 3),
        Field("partition_epoch", "int32", 2, 3),
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] | None = None,
        new_isr_with_epochs: list[BrokerState] | None = None,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = [] if new_isr is None else new_isr
        self.new_isr_with_epochs = [] if new_isr_with_epochs is None else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class RequestTopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 2, 3),
        Field("partitions", RequestPartitionData, 2, 3, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[RequestPartitionData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics")
    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("broker_id", "int32", 2, 3),
        Field("broker_epoch", "int64", 2, 3, default=-1),
        Field("topics", RequestTopicData, 2, 3, array=True),
    )

    def __init__(
        self, broker_id: int = 0, broker_epoch: int = -1, topics: list[RequestTopicData] | None = None
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is None else topics


class ResponsePartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
        "isr",
        "leader_recovery_state",
        "partition_epoch",
    )
    FIELDS = (
        Field("partition_index", "int32", 2, 3),
        Field("error_code", "int16", 2, 3),
        Field("leader_id", "int32", 2, 3),
        Field("leader_epoch", "int32", 2, 3),
        Field("isr", "int32", 2, 3, array=True),
        Field("leader_recovery_state", "int8", 2, 3),
        Field("partition_epoch", "int32", 2, 3),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] | None = None,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr = [] if isr is None else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class ResponseTopicData(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 2, 3),
        Field("partitions", ResponsePartitionData, 2, 3, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[ResponsePartitionData] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class AlterPartitionResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics")
    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 2, 3),
        Field("error_code", "int16", 2, 3),
        Field("topics", ResponseTopicData, 2, 3, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, topics: list[ResponseTopicData] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is None else topics
