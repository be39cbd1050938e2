"""Sync group, API key 14. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field("string", 0, 5)
    assignment: Buffer = field("bytes", 0, 5)


class SyncGroupRequest(Message, api_key=14, versions=(0, 5), flexible=4):
    group_id: str = field("string", 0, 5)
    generation_id: int = field("int32", 0, 5)
    member_id: str = field("string", 0, 5)
    group_instance_id: str | None = field("string", 3, 5, nullable=3)
    protocol_type: str | None = field("string", 5, 5, nullable=5)
    protocol_name: str | None = field("string", 5, 5, nullable=5)
    assignments: list[SyncGroupRequestAssignment] = field(SyncGroupRequestAssignment, 0, 5, array=True)


class SyncGroupResponse(Message, api_key=14, versions=(0, 5), flexible=4):
    throttle_time_ms: int = field("int32", 1, 5)
    error_code: int = field("int16", 0, 5)
    protocol_type: str | None = field("string", 5, 5, nullable=5)
    protocol_name: str | None = field("string", 5, 5, nullable=5)
    assignment: Buffer = field("bytes", 0, 5)
