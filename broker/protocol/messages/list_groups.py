"""List groups, API key 16. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ListGroupsRequest(Message, api_key=16, versions=(0, 5), flexible=3):
    states_filter: list[str] = field("string", 4, 5, array=True)
    types_filter: list[str] = field("string", 5, 5, array=True)


class ListedGroup(Struct):
    group_id: str = field("string", 0, 5)
    protocol_type: str = field("string", 0, 5)
    group_state: str = field("string", 4, 5)
    group_type: str = field("string", 5, 5)


class ListGroupsResponse(Message, api_key=16, versions=(0, 5), flexible=3):
    throttle_time_ms: int = field("int32", 1, 5)
    error_code: int = field("int16", 0, 5)
    groups: list[ListedGroup] = field(ListedGroup, 0, 5, array=True)
