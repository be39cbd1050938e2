"""Consumer group describe, API key 69. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class ConsumerGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")
    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_ids", "string", 0, 1, array=True),
        Field("include_authorized_operations", "bool", 0, 1),
    )

    def __init__(
        self, group_ids: list[str] | None = None, include_authorized_operations: bool = False
    ) -> None:
        self.group_ids = [] if group_ids is None else group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 0, 1),
        Field("topic_name", "string", 0, 1),
        Field("partitions", "int32", 0, 1, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, topic_name: str = "", partitions: list[int] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    FIELDS = (Field("topic_partitions", TopicPartitions, 0, 1, array=True),)

    def __init__(self, topic_partitions: list[TopicPartitions] | None = None) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class Member(Struct):
    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    FIELDS = (
        Field("member_id", "string", 0, 1),
        Field("instance_id", "string", 0, 1, nullable=0),
        Field("rack_id", "string", 0, 1, nullable=0),
        Field("member_epoch", "int32", 0, 1),
        Field("client_id", "string", 0, 1),
        Field("client_host", "string", 0, 1),
        Field("subscribed_topic_names", "string", 0, 1, array=True),
        Field("subscribed_topic_regex", "string", 0, 1, nullable=0),
        Field("assignment", Assignment, 0, 1),
        Field("target_assignment", Assignment, 0, 1),
        Field("member_type", "int8", 1, 1, default=-1),
    )

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("group_id", "string", 0, 1),
        Field("group_state", "string", 0, 1),
        Field("group_epoch", "int32", 0, 1),
        Field("assignment_epoch", "int32", 0, 1),
        Field("assignor_name", "string", 0, 1),
        Field("members", Member, 0, 1, array=True),
        Field("authorized_operations", "int32", 0, 1, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("groups", DescribedGroup, 0, 1, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
