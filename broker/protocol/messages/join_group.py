"""Join group, API key 11. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata")
    FIELDS = (
        Field("name", "string", 0, 9),
        Field("metadata", "bytes", 0, 9),
    )

    def __init__(self, name: str = "", metadata: Buffer = b"") -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Message):
    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6
    FIELDS = (
        Field("group_id", "string", 0, 9),
        Field("session_timeout_ms", "int32", 0, 9),
        Field("rebalance_timeout_ms", "int32", 1, 9, default=-1),
        Field("member_id", "string", 0, 9),
        Field("group_instance_id", "string", 5, 9, nullable=5),
        Field("protocol_type", "string", 0, 9),
        Field("protocols", JoinGroupRequestProtocol, 0, 9, array=True),
        Field("reason", "string", 8, 9, nullable=8),
    )

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | None = None,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is None else protocols
        self.reason = reason


class JoinGroupResponseMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "metadata")
    FIELDS = (
        Field("member_id", "string", 0, 9),
        Field("group_instance_id", "string", 5, 9, nullable=5),
        Field("metadata", "bytes", 0, 9),
    )

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = None, metadata: Buffer = b""
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6
    FIELDS = (
        Field("throttle_time_ms", "int32", 2, 9),
        Field("error_code", "int16", 0, 9),
        Field("generation_id", "int32", 0, 9, default=-1),
        Field("protocol_type", "string", 7, 9, nullable=7),
        Field("protocol_name", "string", 0, 9, nullable=7),
        Field("leader", "string", 0, 9),
        Field("skip_assignment", "bool", 9, 9),
        Field("member_id", "string", 0, 9),
        Field("members", JoinGroupResponseMember, 0, 9, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is None else members
