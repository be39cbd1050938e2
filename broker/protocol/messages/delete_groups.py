"""Delete groups, API key 42. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DeleteGroupsRequest(Message, api_key=42, versions=(0, 3), flexible=2):
    groups_names: list[str] = field("string", 0, 3, array=True)


class DeletableGroupResult(Struct):
    group_id: str = field("string", 0, 3)
    error_code: int = field("int16", 0, 3)
    error_message: str | None = field("string", 3, 3, nullable=3)


class DeleteGroupsResponse(Message, api_key=42, versions=(0, 3), flexible=2):
    throttle_time_ms: int = field("int32", 0, 3)
    results: list[DeletableGroupResult] = field(DeletableGroupResult, 0, 3, array=True)
