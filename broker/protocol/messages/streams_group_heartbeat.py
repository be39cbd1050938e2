"""Streams group heartbeat, API key 88. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


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


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    FIELDS = (
        Field("source_topics", "int16", 0, 0, array=True),
        Field("source_topic_regex", "int16", 0, 0, array=True),
        Field("repartition_source_topics", "int16", 0, 0, array=True),
    )

    def __init__(
        self,
        source_topics: list[int] | None = None,
        source_topic_regex: list[int] | None = None,
        repartition_source_topics: list[int] | None = None,
    ) -> None:
        self.source_topics = [] if source_topics is None else source_topics
        self.source_topic_regex = [] if source_topic_regex is None else source_topic_regex
        self.repartition_source_topics = (
            [] if repartition_source_topics is None else repartition_source_topics
        )


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )
    FIELDS = (
        Field("subtopology_id", "string", 0, 0),
        Field("source_topics", "string", 0, 0, array=True),
        Field("source_topic_regex", "string", 0, 0, array=True),
        Field("state_changelog_topics", TopicInfo, 0, 0, array=True),
        Field("repartition_sink_topics", "string", 0, 0, array=True),
        Field("repartition_source_topics", TopicInfo, 0, 0, array=True),
        Field("copartition_groups", CopartitionGroup, 0, 0, array=True),
    )

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] | None = None,
        source_topic_regex: list[str] | None = None,
        state_changelog_topics: list[TopicInfo] | None = None,
        repartition_sink_topics: list[str] | None = None,
        repartition_source_topics: list[TopicInfo] | None = None,
        copartition_groups: list[CopartitionGroup] | None = None,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is None else source_topics
        self.source_topic_regex = [] if source_topic_regex is None else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is None else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is None else repartition_sink_topics
        self.repartition_source_topics = (
            [] if repartition_source_topics is None else repartition_source_topics
        )
        self.copartition_groups = [] if copartition_groups is None else copartition_groups


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    FIELDS = (
        Field("epoch", "int32", 0, 0),
        Field("subtopologies", Subtopology, 0, 0, array=True),
    )

    def __init__(self, epoch: int = 0, subtopologies: list[Subtopology] | None = None) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is None else subtopologies


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    FIELDS = (
        Field("subtopology_id", "string", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
    )

    def __init__(self, subtopology_id: str = "", partitions: list[int] | None = None) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is None else partitions


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


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )
    API_KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("endpoint_information_epoch", "int32", 0, 0),
        Field("instance_id", "string", 0, 0, nullable=0),
        Field("rack_id", "string", 0, 0, nullable=0),
        Field("rebalance_timeout_ms", "int32", 0, 0, default=-1),
        Field("topology", Topology, 0, 0, nullable=0),
        Field("active_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("standby_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("warmup_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("process_id", "string", 0, 0, nullable=0),
        Field("user_endpoint", Endpoint, 0, 0, nullable=0),
        Field("client_tags", KeyValue, 0, 0, array=True, nullable=0),
        Field("task_offsets", TaskOffset, 0, 0, array=True, nullable=0),
        Field("task_end_offsets", TaskOffset, 0, 0, array=True, nullable=0),
        Field("shutdown_application", "bool", 0, 0),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Status(Struct):
    __slots__ = ("status_code", "status_detail")
    FIELDS = (
        Field("status_code", "int8", 0, 0),
        Field("status_detail", "string", 0, 0),
    )

    def __init__(self, status_code: int = 0, status_detail: str = "") -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class EndpointToPartitions(Struct):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")
    FIELDS = (
        Field("user_endpoint", Endpoint, 0, 0),
        Field("active_partitions", TopicPartition, 0, 0, array=True),
        Field("standby_partitions", TopicPartition, 0, 0, array=True),
    )

    def __init__(
        self,
        user_endpoint: Endpoint | None = None,
        active_partitions: list[TopicPartition] | None = None,
        standby_partitions: list[TopicPartition] | None = None,
    ) -> None:
        self.user_endpoint = Endpoint() if user_endpoint is None else user_endpoint
        self.active_partitions = [] if active_partitions is None else active_partitions
        self.standby_partitions = [] if standby_partitions is None else standby_partitions


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag",
        "task_offset_interval_ms",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )
    API_KEY = 88
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("heartbeat_interval_ms", "int32", 0, 0),
        Field("acceptable_recovery_lag", "int32", 0, 0),
        Field("task_offset_interval_ms", "int32", 0, 0),
        Field("status", Status, 0, 0, array=True, nullable=0),
        Field("active_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("standby_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("warmup_tasks", TaskIds, 0, 0, array=True, nullable=0),
        Field("endpoint_information_epoch", "int32", 0, 0),
        Field("partitions_by_user_endpoint", EndpointToPartitions, 0, 0, array=True, nullable=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[Status] | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint
