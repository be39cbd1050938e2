"""Streams group heartbeat, API key 88. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class KeyValue(Struct):
    key: str = field("string", 0, 1)
    value: str = field("string", 0, 1)


class TopicInfo(Struct):
    name: str = field("string", 0, 1)
    partitions: int = field("int32", 0, 1)
    replication_factor: int = field("int16", 0, 1)
    topic_configs: list[KeyValue] = field(KeyValue, 0, 1, array=True)


class CopartitionGroup(Struct):
    source_topics: list[int] = field("int16", 0, 1, array=True)
    source_topic_regex: list[int] = field("int16", 0, 1, array=True)
    repartition_source_topics: list[int] = field("int16", 0, 1, array=True)


class Subtopology(Struct):
    subtopology_id: str = field("string", 0, 1)
    source_topics: list[str] = field("string", 0, 1, array=True)
    source_topic_regex: list[str] = field("string", 0, 1, array=True)
    state_changelog_topics: list[TopicInfo] = field(TopicInfo, 0, 1, array=True)
    repartition_sink_topics: list[str] = field("string", 0, 1, array=True)
    repartition_source_topics: list[TopicInfo] = field(TopicInfo, 0, 1, array=True)
    copartition_groups: list[CopartitionGroup] = field(CopartitionGroup, 0, 1, array=True)


class Topology(Struct):
    epoch: int = field("int32", 0, 1)
    subtopologies: list[Subtopology] = field(Subtopology, 0, 1, array=True)


class TaskIds(Struct):
    subtopology_id: str = field("string", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class Endpoint(Struct):
    host: str = field("string", 0, 1)
    port: int = field("uint16", 0, 1)


class TaskOffset(Struct):
    subtopology_id: str = field("string", 0, 1)
    partition: int = field("int32", 0, 1)
    offset: int = field("int64", 0, 1)


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions=(0, 1), flexible=0):
    group_id: str = field("string", 0, 1)
    member_id: str = field("string", 0, 1)
    member_epoch: int = field("int32", 0, 1)
    endpoint_information_epoch: int = field("int32", 0, 1)
    instance_id: str | None = field("string", 0, 1, nullable=0)
    rack_id: str | None = field("string", 0, 1, nullable=0)
    rebalance_timeout_ms: int = field("int32", 0, 1, default=-1)
    topology: Topology | None = field(Topology, 0, 1, nullable=0)
    active_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    standby_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    warmup_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    process_id: str | None = field("string", 0, 1, nullable=0)
    user_endpoint: Endpoint | None = field(Endpoint, 0, 1, nullable=0)
    client_tags: list[KeyValue] | None = field(KeyValue, 0, 1, array=True, nullable=0)
    task_offsets: list[TaskOffset] | None = field(TaskOffset, 0, 1, array=True, nullable=0)
    task_end_offsets: list[TaskOffset] | None = field(TaskOffset, 0, 1, array=True, nullable=0)
    shutdown_application: bool = field("bool", 0, 1)


class Status(Struct):
    status_code: int = field("int8", 0, 1)
    status_detail: str = field("string", 0, 1)


class TopicPartition(Struct):
    topic: str = field("string", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(Endpoint, 0, 1)
    active_partitions: list[TopicPartition] = field(TopicPartition, 0, 1, array=True)
    standby_partitions: list[TopicPartition] = field(TopicPartition, 0, 1, array=True)


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    member_id: str = field("string", 0, 1)
    member_epoch: int = field("int32", 0, 1)
    heartbeat_interval_ms: int = field("int32", 0, 1)
    acceptable_recovery_lag_legacy: int = field("int32", 0, 0)
    task_offset_interval_ms: int = field("int32", 0, 1)
    acceptable_recovery_lag: int = field("int64", 1, 1, default=-1)
    status: list[Status] | None = field(Status, 0, 1, array=True, nullable=0)
    active_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    standby_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    warmup_tasks: list[TaskIds] | None = field(TaskIds, 0, 1, array=True, nullable=0)
    topology_description_required: bool = field("bool", 1, 1)
    endpoint_information_epoch: int = field("int32", 0, 1)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        EndpointToPartitions, 0, 1, array=True, nullable=0
    )
