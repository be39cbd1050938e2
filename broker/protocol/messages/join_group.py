"""Join group, API key 11. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str = field("string", 0, 9)
    metadata: Buffer = field("bytes", 0, 9)


class JoinGroupRequest(Message, api_key=11, versions=(0, 9), flexible=6):
    group_id: str = field("string", 0, 9)
    session_timeout_ms: int = field("int32", 0, 9)
    rebalance_timeout_ms: int = field("int32", 1, 9, default=-1)
    member_id: str = field("string", 0, 9)
    group_instance_id: str | None = field("string", 5, 9, nullable=5)
    protocol_type: str = field("string", 0, 9)
    protocols: list[JoinGroupRequestProtocol] = field(JoinGroupRequestProtocol, 0, 9, array=True)
    reason: str | None = field("string", 8, 9, nullable=8)


class JoinGroupResponseMember(Struct):
    member_id: str = field("string", 0, 9)
    group_instance_id: str | None = field("string", 5, 9, nullable=5)
    metadata: Buffer = field("bytes", 0, 9)


class JoinGroupResponse(Message, api_key=11, versions=(0, 9), flexible=6):
    throttle_time_ms: int = field("int32", 2, 9)
    error_code: int = field("int16", 0, 9)
    generation_id: int = field("int32", 0, 9, default=-1)
    protocol_type: str | None = field("string", 7, 9, nullable=7)
    protocol_name: str | None = field("string", 0, 9, nullable=7)
    leader: str = field("string", 0, 9)
    skip_assignment: bool = field("bool", 9, 9)
    member_id: str = field("string", 0, 9)
    members: list[JoinGroupResponseMember] = field(JoinGroupResponseMember, 0, 9, array=True)
