"""Alter partition reassignments, API key 45. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas")
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("replicas", "int32", 0, 1, array=True, nullable=0),
    )

    def __init__(self, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("partitions", ReassignablePartition, 0, 1, array=True),
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartition] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")
    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("timeout_ms", "int32", 0, 1, default=60000),
        Field("allow_replication_factor_change", "bool", 1, 1, default=True),
        Field("topics", ReassignableTopic, 0, 1, array=True),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is None else topics


class ReassignablePartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message")
    FIELDS = (
        Field("partition_index", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
    )

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("partitions", ReassignablePartitionResponse, 0, 1, array=True),
    )

    def __init__(self, name: str = "", partitions: list[ReassignablePartitionResponse] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = (
        "throttle_time_ms",
        "allow_replication_factor_change",
        "error_code",
        "error_message",
        "responses",
    )
    API_KEY = 45
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("allow_replication_factor_change", "bool", 1, 1, default=True),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("responses", ReassignableTopicResponse, 0, 1, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[ReassignableTopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is None else responses
