"""Sync group, API key 14. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment")
    FIELDS = (
        Field("member_id", "string", 0, 5),
        Field("assignment", "bytes", 0, 5),
    )

    def __init__(self, member_id: str = "", assignment: Buffer = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Message):
    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    FIELDS = (
        Field("group_id", "string", 0, 5),
        Field("generation_id", "int32", 0, 5),
        Field("member_id", "string", 0, 5),
        Field("group_instance_id", "string", 3, 5, nullable=3),
        Field("protocol_type", "string", 5, 5, nullable=5),
        Field("protocol_name", "string", 5, 5, nullable=5),
        Field("assignments", SyncGroupRequestAssignment, 0, 5, array=True),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is None else assignments


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 5),
        Field("error_code", "int16", 0, 5),
        Field("protocol_type", "string", 5, 5, nullable=5),
        Field("protocol_name", "string", 5, 5, nullable=5),
        Field("assignment", "bytes", 0, 5),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: Buffer = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
