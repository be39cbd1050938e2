"""Alter client quotas, API key 49. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    FIELDS = (
        Field("entity_type", "string", 0, 1),
        Field("entity_name", "string", 0, 1, nullable=0),
    )

    def __init__(self, entity_type: str = "", entity_name: str | None = None) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(Struct):
    __slots__ = ("key", "value", "remove")
    FIELDS = (
        Field("key", "string", 0, 1),
        Field("value", "float64", 0, 1),
        Field("remove", "bool", 0, 1),
    )

    def __init__(self, key: str = "", value: float = 0.0, remove: bool = False) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class RequestEntryData(Struct):
    __slots__ = ("entity", "ops")
    FIELDS = (
        Field("entity", EntityData, 0, 1, array=True),
        Field("ops", OpData, 0, 1, array=True),
    )

    def __init__(self, entity: list[EntityData] | None = None, ops: list[OpData] | None = None) -> None:
        self.entity = [] if entity is None else entity
        self.ops = [] if ops is None else ops


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("entries", RequestEntryData, 0, 1, array=True),
        Field("validate_only", "bool", 0, 1),
    )

    def __init__(self, entries: list[RequestEntryData] | None = None, validate_only: bool = False) -> None:
        self.entries = [] if entries is None else entries
        self.validate_only = validate_only


class ResponseEntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity")
    FIELDS = (
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("entity", EntityData, 0, 1, array=True),
    )

    def __init__(
        self, error_code: int = 0, error_message: str | None = None, entity: list[EntityData] | None = None
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is None else entity


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("entries", ResponseEntryData, 0, 1, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, entries: list[ResponseEntryData] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is None else entries
