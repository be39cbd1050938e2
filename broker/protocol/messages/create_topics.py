"""Create topics, API key 19. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids")
    FIELDS = (
        Field("partition_index", "int32", 2, 7),
        Field("broker_ids", "int32", 2, 7, array=True),
    )

    def __init__(self, partition_index: int = 0, broker_ids: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value")
    FIELDS = (
        Field("name", "string", 2, 7),
        Field("value", "string", 2, 7, nullable=2),
    )

    def __init__(self, name: str = "", value: str | None = None) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    FIELDS = (
        Field("name", "string", 2, 7),
        Field("num_partitions", "int32", 2, 7),
        Field("replication_factor", "int16", 2, 7),
        Field("assignments", CreatableReplicaAssignment, 2, 7, array=True),
        Field("configs", CreatableTopicConfig, 2, 7, array=True),
    )

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] | None = None,
        configs: list[CreatableTopicConfig] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is None else assignments
        self.configs = [] if configs is None else configs


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE = 5
    FIELDS = (
        Field("topics", CreatableTopic, 2, 7, array=True),
        Field("timeout_ms", "int32", 2, 7, default=60000),
        Field("validate_only", "bool", 2, 7),
    )

    def __init__(
        self, topics: list[CreatableTopic] | None = None, timeout_ms: int = 60000, validate_only: bool = False
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    FIELDS = (
        Field("name", "string", 5, 7),
        Field("value", "string", 5, 7, nullable=5),
        Field("read_only", "bool", 5, 7),
        Field("config_source", "int8", 5, 7, default=-1),
        Field("is_sensitive", "bool", 5, 7),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    FIELDS = (
        Field("name", "string", 2, 7),
        Field("topic_id", "uuid", 7, 7),
        Field("error_code", "int16", 2, 7),
        Field("error_message", "string", 2, 7, nullable=2),
        Field("topic_config_error_code", "int16", 5, 7, tag=0),
        Field("num_partitions", "int32", 5, 7, default=-1),
        Field("replication_factor", "int16", 5, 7, default=-1),
        Field("configs", CreatableTopicConfigs, 5, 7, array=True, nullable=5),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")
    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE = 5
    FIELDS = (
        Field("throttle_time_ms", "int32", 2, 7),
        Field("topics", CreatableTopicResult, 2, 7, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, topics: list[CreatableTopicResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is None else topics
