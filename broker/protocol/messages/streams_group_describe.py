"""Streams group describe, API key 89. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class StreamsGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")
    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_ids", "string", 0, 0, array=True),
        Field("include_authorized_operations", "bool", 0, 0),
    )

    def __init__(
        self, group_ids: list[str] | None = None, include_authorized_operations: bool = False
    ) -> None:
        self.group_ids = [] if group_ids is None else group_ids
        self.include_authorized_operations = include_authorized_operations


class KeyValue(Struct):
    __slots__ = ("key", "value")
    FIELDS = (
        Field("key", "string", 0, 0),
        Field("value", "string", 0, 0),
    )

    def __init__(self, key: str = "", value: str = "") -> None:
        self.key = key
        self.value = value


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("partitions", "int32", 0, 0),
        Field("replication_factor", "int16", 0, 0),
        Field("topic_configs", KeyValue, 0, 0, array=True),
    )

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] | None = None,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is None else topic_configs


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )
    FIELDS = (
        Field("subtopology_id", "string", 0, 0),
        Field("source_topics", "string", 0, 0, array=True),
        Field("repartition_sink_topics", "string", 0, 0, array=True),
        Field("state_changelog_topics", TopicInfo, 0, 0, array=True),
        Field("repartition_source_topics", TopicInfo, 0, 0, array=True),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] | None = None,
        repartition_sink_topics: list[str] | None = None,
        state_changelog_topics: list[TopicInfo] | None = None,
        repartition_source_topics: list[TopicInfo] | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is None else source_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is None else repartition_sink_topics
        self.state_changelog_topics = [] if state_changelog_topics is None else state_changelog_topics
        self.repartition_source_topics = (
            [] if repartition_source_topics is None else repartition_source_topics
        )


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    FIELDS = (
        Field("epoch", "int32", 0, 0),
        Field("subtopologies", Subtopology, 0, 0, array=True, nullable=0),
    )

    def __init__(self, epoch: int = 0, subtopologies: list[Subtopology] | None = None) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class Endpoint(Struct):
    __slots__ = ("host", "port")
    FIELDS = (
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
    )

    def __init__(self, host: str = "", port: int = 0) -> None:
        self.host = host
        self.port = port


class TaskOffset(Struct):
    __slots__ = ("subtopology_id", "partition", "offset")
    FIELDS = (
        Field("subtopology_id", "string", 0, 0),
        Field("partition", "int32", 0, 0),
        Field("offset", "int64", 0, 0),
    )

    def __init__(self, subtopology_id: str = "", partition: int = 0, offset: int = 0) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    FIELDS = (
        Field("subtopology_id", "string", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
    )

    def __init__(self, subtopology_id: str = "", partitions: list[int] | None = None) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is None else partitions


class Assignment(Struct):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
    FIELDS = (
        Field("active_tasks", TaskIds, 0, 0, array=True),
        Field("standby_tasks", TaskIds, 0, 0, array=True),
        Field("warmup_tasks", TaskIds, 0, 0, array=True),
    )

    def __init__(
        self,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
    ) -> None:
        self.active_tasks = [] if active_tasks is None else active_tasks
        self.standby_tasks = [] if standby_tasks is None else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is None else warmup_tasks


class Member(Struct):
    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )
    FIELDS = (
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("instance_id", "string", 0, 0, nullable=0),
        Field("rack_id", "string", 0, 0, nullable=0),
        Field("client_id", "string", 0, 0),
        Field("client_host", "string", 0, 0),
        Field("topology_epoch", "int32", 0, 0),
        Field("process_id", "string", 0, 0),
        Field("user_endpoint", Endpoint, 0, 0, nullable=0),
        Field("client_tags", KeyValue, 0, 0, array=True),
        Field("task_offsets", TaskOffset, 0, 0, array=True),
        Field("task_end_offsets", TaskOffset, 0, 0, array=True),
        Field("assignment", Assignment, 0, 0),
        Field("target_assignment", Assignment, 0, 0),
        Field("is_classic", "bool", 0, 0),
    )

    def __init__(
        self,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is None else client_tags
        self.task_offsets = [] if task_offsets is None else task_offsets
        self.task_end_offsets = [] if task_end_offsets is None else task_end_offsets
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic = is_classic


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("group_id", "string", 0, 0),
        Field("group_state", "string", 0, 0),
        Field("group_epoch", "int32", 0, 0),
        Field("assignment_epoch", "int32", 0, 0),
        Field("topology", Topology, 0, 0, nullable=0),
        Field("members", Member, 0, 0, array=True),
        Field("authorized_operations", "int32", 0, 0, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    API_KEY = 89
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("groups", DescribedGroup, 0, 0, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
