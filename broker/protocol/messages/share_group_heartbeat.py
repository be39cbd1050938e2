"""Share group heartbeat, API key 76. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("group_id", "string", 1, 1),
        Field("member_id", "string", 1, 1),
        Field("member_epoch", "int32", 1, 1),
        Field("rack_id", "string", 1, 1, nullable=1),
        Field("subscribed_topic_names", "string", 1, 1, array=True, nullable=1),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 1, 1),
        Field("partitions", "int32", 1, 1, array=True),
    )

    def __init__(self, topic_id: bytes = ZERO_UUID, partitions: list[int] | None = None) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is None else partitions


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    FIELDS = (Field("topic_partitions", TopicPartitions, 1, 1, array=True),)

    def __init__(self, topic_partitions: list[TopicPartitions] | None = None) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class ShareGroupHeartbeatResponse(Message):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 1),
        Field("error_code", "int16", 1, 1),
        Field("error_message", "string", 1, 1, nullable=1),
        Field("member_id", "string", 1, 1, nullable=1),
        Field("member_epoch", "int32", 1, 1),
        Field("heartbeat_interval_ms", "int32", 1, 1),
        Field("assignment", Assignment, 1, 1, nullable=1),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
