"""Leave group, API key 13. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class MemberIdentity(Struct):
    member_id: str = field("string", 3, 5)
    group_instance_id: str | None = field("string", 3, 5, nullable=3)
    reason: str | None = field("string", 5, 5, nullable=5)


class LeaveGroupRequest(Message, api_key=13, versions=(0, 5), flexible=4):
    group_id: str = field("string", 0, 5)
    member_id: str = field("string", 0, 2)
    members: list[MemberIdentity] = field(MemberIdentity, 3, 5, array=True)


class MemberResponse(Struct):
    member_id: str = field("string", 3, 5)
    group_instance_id: str | None = field("string", 3, 5, nullable=3)
    error_code: int = field("int16", 3, 5)


class LeaveGroupResponse(Message, api_key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: int = field("int32", 1, 5)
    error_code: int = field("int16", 0, 5)
    members: list[MemberResponse] = field(MemberResponse, 3, 5, array=True)
