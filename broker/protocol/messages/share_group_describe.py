"""Share group describe, API key 77. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class ShareGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")
    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("group_ids", "string", 1, 1, array=True),
        Field("include_authorized_operations", "bool", 1, 1),
    )

    def __init__(
        self, group_ids: list[str] | None = None, include_authorized_operations: bool = False
    ) -> None:
        self.group_ids = [] if group_ids is None else group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions")
    FIELDS = (
        Field("topic_id", "uuid", 1, 1),
        Field("topic_name", "string", 1, 1),
        Field("partitions", "int32", 1, 1, array=True),
    )

    def __init__(
        self, topic_id: bytes = ZERO_UUID, topic_name: str = "", partitions: list[int] | None = None
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is None else partitions


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    FIELDS = (Field("topic_partitions", TopicPartitions, 1, 1, array=True),)

    def __init__(self, topic_partitions: list[TopicPartitions] | None = None) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class Member(Struct):
    __slots__ = (
        "member_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "assignment",
    )
    FIELDS = (
        Field("member_id", "string", 1, 1),
        Field("rack_id", "string", 1, 1, nullable=1),
        Field("member_epoch", "int32", 1, 1),
        Field("client_id", "string", 1, 1),
        Field("client_host", "string", 1, 1),
        Field("subscribed_topic_names", "string", 1, 1, array=True),
        Field("assignment", Assignment, 1, 1),
    )

    def __init__(
        self,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        assignment: Assignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is None else subscribed_topic_names
        self.assignment = Assignment() if assignment is None else assignment


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
        Field("error_code", "int16", 1, 1),
        Field("error_message", "string", 1, 1, nullable=1),
        Field("group_id", "string", 1, 1),
        Field("group_state", "string", 1, 1),
        Field("group_epoch", "int32", 1, 1),
        Field("assignment_epoch", "int32", 1, 1),
        Field("assignor_name", "string", 1, 1),
        Field("members", Member, 1, 1, array=True),
        Field("authorized_operations", "int32", 1, 1, default=-2147483648),
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


class ShareGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 1),
        Field("groups", DescribedGroup, 1, 1, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
