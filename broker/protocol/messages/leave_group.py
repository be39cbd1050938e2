"""Leave group, API key 13. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason")
    FIELDS = (
        Field("member_id", "string", 3, 5),
        Field("group_instance_id", "string", 3, 5, nullable=3),
        Field("reason", "string", 5, 5, nullable=5),
    )

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = None, reason: str | None = None
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members")
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    FIELDS = (
        Field("group_id", "string", 0, 5),
        Field("member_id", "string", 0, 2),
        Field("members", MemberIdentity, 3, 5, array=True),
    )

    def __init__(
        self, group_id: str = "", member_id: str = "", members: list[MemberIdentity] | None = None
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is None else members


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code")
    FIELDS = (
        Field("member_id", "string", 3, 5),
        Field("group_instance_id", "string", 3, 5, nullable=3),
        Field("error_code", "int16", 3, 5),
    )

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = None, error_code: int = 0
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members")
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 5),
        Field("error_code", "int16", 0, 5),
        Field("members", MemberResponse, 3, 5, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, members: list[MemberResponse] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is None else members
