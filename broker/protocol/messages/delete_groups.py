"""Delete groups, API key 42. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (Field("groups_names", "string", 0, 2, array=True),)

    def __init__(self, groups_names: list[str] | None = None) -> None:
        self.groups_names = [] if groups_names is None else groups_names


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code")
    FIELDS = (
        Field("group_id", "string", 0, 2),
        Field("error_code", "int16", 0, 2),
    )

    def __init__(self, group_id: str = "", error_code: int = 0) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 2),
        Field("results", DeletableGroupResult, 0, 2, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, results: list[DeletableGroupResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
