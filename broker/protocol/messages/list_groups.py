"""List groups, API key 16. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter")
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("states_filter", "string", 4, 5, array=True),
        Field("types_filter", "string", 5, 5, array=True),
    )

    def __init__(self, states_filter: list[str] | None = None, types_filter: list[str] | None = None) -> None:
        self.states_filter = [] if states_filter is None else states_filter
        self.types_filter = [] if types_filter is None else types_filter


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    FIELDS = (
        Field("group_id", "string", 0, 5),
        Field("protocol_type", "string", 0, 5),
        Field("group_state", "string", 4, 5),
        Field("group_type", "string", 5, 5),
    )

    def __init__(
        self, group_id: str = "", protocol_type: str = "", group_state: str = "", group_type: str = ""
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups")
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 5),
        Field("error_code", "int16", 0, 5),
        Field("groups", ListedGroup, 0, 5, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is None else groups
