"""Create topics, API key 19. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field("int32", 2, 7)
    broker_ids: list[int] = field("int32", 2, 7, array=True)


class CreatableTopicConfig(Struct):
    name: str = field("string", 2, 7)
    value: str | None = field("string", 2, 7, nullable=2)


class CreatableTopic(Struct):
    name: str = field("string", 2, 7)
    num_partitions: int = field("int32", 2, 7)
    replication_factor: int = field("int16", 2, 7)
    assignments: list[CreatableReplicaAssignment] = field(CreatableReplicaAssignment, 2, 7, array=True)
    configs: list[CreatableTopicConfig] = field(CreatableTopicConfig, 2, 7, array=True)


class CreateTopicsRequest(Message, api_key=19, versions=(2, 7), flexible=5):
    topics: list[CreatableTopic] = field(CreatableTopic, 2, 7, array=True)
    timeout_ms: int = field("int32", 2, 7, default=60000)
    validate_only: bool = field("bool", 2, 7)


class CreatableTopicConfigs(Struct):
    name: str = field("string", 5, 7)
    value: str | None = field("string", 5, 7, nullable=5)
    read_only: bool = field("bool", 5, 7)
    config_source: int = field("int8", 5, 7, default=-1)
    is_sensitive: bool = field("bool", 5, 7)


class CreatableTopicResult(Struct):
    name: str = field("string", 2, 7)
    topic_id: bytes = field("uuid", 7, 7)
    error_code: int = field("int16", 2, 7)
    error_message: str | None = field("string", 2, 7, nullable=2)
    topic_config_error_code: int = field("int16", 5, 7, tag=0)
    num_partitions: int = field("int32", 5, 7, default=-1)
    replication_factor: int = field("int16", 5, 7, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(CreatableTopicConfigs, 5, 7, array=True, nullable=5)


class CreateTopicsResponse(Message, api_key=19, versions=(2, 7), flexible=5):
    throttle_time_ms: int = field("int32", 2, 7)
    topics: list[CreatableTopicResult] = field(CreatableTopicResult, 2, 7, array=True)
