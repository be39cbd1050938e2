"""Heartbeat, API key 12. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE = 4
    FIELDS = (
        Field("group_id", "string", 0, 4),
        Field("generation_id", "int32", 0, 4),
        Field("member_id", "string", 0, 4),
        Field("group_instance_id", "string", 3, 4, nullable=3),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 4),
        Field("error_code", "int16", 0, 4),
    )

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
