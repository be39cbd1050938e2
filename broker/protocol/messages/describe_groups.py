"""Describe groups, API key 15. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions=(0, 6), flexible=5):
    groups: list[str] = field("string", 0, 6, array=True)
    include_authorized_operations: bool = field("bool", 3, 6)


class DescribedGroupMember(Struct):
    member_id: str = field("string", 0, 6)
    group_instance_id: str | None = field("string", 4, 6, nullable=4)
    client_id: str = field("string", 0, 6)
    client_host: str = field("string", 0, 6)
    member_metadata: Buffer = field("bytes", 0, 6)
    member_assignment: Buffer = field("bytes", 0, 6)


class DescribedGroup(Struct):
    error_code: int = field("int16", 0, 6)
    error_message: str | None = field("string", 6, 6, nullable=6)
    group_id: str = field("string", 0, 6)
    group_state: str = field("string", 0, 6)
    protocol_type: str = field("string", 0, 6)
    protocol_data: str = field("string", 0, 6)
    members: list[DescribedGroupMember] = field(DescribedGroupMember, 0, 6, array=True)
    authorized_operations: int = field("int32", 3, 6, default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions=(0, 6), flexible=5):
    throttle_time_ms: int = field("int32", 1, 6)
    groups: list[DescribedGroup] = field(DescribedGroup, 0, 6, array=True)
