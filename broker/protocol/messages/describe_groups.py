"""Describe groups, API key 15. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations")
    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE = 5
    FIELDS = (
        Field("groups", "string", 0, 6, array=True),
        Field("include_authorized_operations", "bool", 3, 6),
    )

    def __init__(self, groups: list[str] | None = None, include_authorized_operations: bool = False) -> None:
        self.groups = [] if groups is None else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )
    FIELDS = (
        Field("member_id", "string", 0, 6),
        Field("group_instance_id", "string", 4, 6, nullable=4),
        Field("client_id", "string", 0, 6),
        Field("client_host", "string", 0, 6),
        Field("member_metadata", "bytes", 0, 6),
        Field("member_assignment", "bytes", 0, 6),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: Buffer = b"",
        member_assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        Field("error_code", "int16", 0, 6),
        Field("error_message", "string", 6, 6, nullable=6),
        Field("group_id", "string", 0, 6),
        Field("group_state", "string", 0, 6),
        Field("protocol_type", "string", 0, 6),
        Field("protocol_data", "string", 0, 6),
        Field("members", DescribedGroupMember, 0, 6, array=True),
        Field("authorized_operations", "int32", 3, 6, default=-2147483648),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is None else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE = 5
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 6),
        Field("groups", DescribedGroup, 0, 6, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is None else groups
