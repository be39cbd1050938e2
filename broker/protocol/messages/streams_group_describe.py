"""Streams group describe, API key 89. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class StreamsGroupDescribeRequest(Message, api_key=89, versions=(0, 1), flexible=0):
    group_ids: list[str] = field("string", 0, 1, array=True)
    include_authorized_operations: bool = field("bool", 0, 1)
    include_topology_description: bool = field("bool", 1, 1)


class KeyValue(Struct):
    key: str = field("string", 0, 1)
    value: str = field("string", 0, 1)


class TopicInfo(Struct):
    name: str = field("string", 0, 1)
    partitions: int = field("int32", 0, 1)
    replication_factor: int = field("int16", 0, 1)
    topic_configs: list[KeyValue] = field(KeyValue, 0, 1, array=True)


class Subtopology(Struct):
    subtopology_id: str = field("string", 0, 1)
    source_topics: list[str] = field("string", 0, 1, array=True)
    repartition_sink_topics: list[str] = field("string", 0, 1, array=True)
    state_changelog_topics: list[TopicInfo] = field(TopicInfo, 0, 1, array=True)
    repartition_source_topics: list[TopicInfo] = field(TopicInfo, 0, 1, array=True)


class Topology(Struct):
    epoch: int = field("int32", 0, 1)
    subtopologies: list[Subtopology] | None = field(Subtopology, 0, 1, array=True, nullable=0)


class Endpoint(Struct):
    host: str = field("string", 0, 1)
    port: int = field("uint16", 0, 1)


class TaskOffset(Struct):
    subtopology_id: str = field("string", 0, 1)
    partition: int = field("int32", 0, 1)
    offset: int = field("int64", 0, 1)


class TaskIds(Struct):
    subtopology_id: str = field("string", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(TaskIds, 0, 1, array=True)
    standby_tasks: list[TaskIds] = field(TaskIds, 0, 1, array=True)
    warmup_tasks: list[TaskIds] = field(TaskIds, 0, 1, array=True)


class Member(Struct):
    member_id: str = field("string", 0, 1)
    member_epoch: int = field("int32", 0, 1)
    instance_id: str | None = field("string", 0, 1, nullable=0)
    rack_id: str | None = field("string", 0, 1, nullable=0)
    client_id: str = field("string", 0, 1)
    client_host: str = field("string", 0, 1)
    topology_epoch: int = field("int32", 0, 1)
    process_id: str = field("string", 0, 1)
    user_endpoint: Endpoint | None = field(Endpoint, 0, 1, nullable=0)
    client_tags: list[KeyValue] = field(KeyValue, 0, 1, array=True)
    task_offsets: list[TaskOffset] = field(TaskOffset, 0, 1, array=True)
    task_end_offsets: list[TaskOffset] = field(TaskOffset, 0, 1, array=True)
    assignment: Assignment = field(Assignment, 0, 1)
    target_assignment: Assignment = field(Assignment, 0, 1)
    is_classic: bool = field("bool", 0, 1)


class TopologyDescriptionNode(Struct):
    name: str = field("string", 1, 1)
    node_type: int = field("int8", 1, 1)
    source_topics: list[str] = field("string", 1, 1, array=True)
    sink_topic: str | None = field("string", 1, 1, nullable=1)
    stores: list[str] = field("string", 1, 1, array=True)
    successors: list[str] = field("string", 1, 1, array=True)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = field("string", 1, 1)
    nodes: list[TopologyDescriptionNode] = field(TopologyDescriptionNode, 1, 1, array=True)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = field(TopologyDescriptionNode, 1, 1)
    processor: TopologyDescriptionNode = field(TopologyDescriptionNode, 1, 1)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = field(
        TopologyDescriptionSubtopology, 1, 1, array=True
    )
    global_stores: list[TopologyDescriptionGlobalStore] = field(
        TopologyDescriptionGlobalStore, 1, 1, array=True
    )


class DescribedGroup(Struct):
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    group_id: str = field("string", 0, 1)
    group_state: str = field("string", 0, 1)
    group_epoch: int = field("int32", 0, 1)
    assignment_epoch: int = field("int32", 0, 1)
    topology: Topology | None = field(Topology, 0, 1, nullable=0)
    members: list[Member] = field(Member, 0, 1, array=True)
    authorized_operations: int = field("int32", 0, 1, default=-2147483648)
    topology_description: TopologyDescription | None = field(TopologyDescription, 1, 1, nullable=1)
    topology_description_status: int = field("int8", 1, 1)
    assignor_name: str | None = field("string", 1, 1, nullable=1)


class StreamsGroupDescribeResponse(Message, api_key=89, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    groups: list[DescribedGroup] = field(DescribedGroup, 0, 1, array=True)
