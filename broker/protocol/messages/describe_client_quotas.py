"""Describe client quotas, API key 48. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match")
    FIELDS = (
        Field("entity_type", "string", 0, 1),
        Field("match_type", "int8", 0, 1),
        Field("match", "string", 0, 1, nullable=0),
    )

    def __init__(self, entity_type: str = "", match_type: int = 0, match: str | None = None) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict")
    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("components", ComponentData, 0, 1, array=True),
        Field("strict", "bool", 0, 1),
    )

    def __init__(self, components: list[ComponentData] | None = None, strict: bool = False) -> None:
        self.components = [] if components is None else components
        self.strict = strict


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    FIELDS = (
        Field("entity_type", "string", 0, 1),
        Field("entity_name", "string", 0, 1, nullable=0),
    )

    def __init__(self, entity_type: str = "", entity_name: str | None = None) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Struct):
    __slots__ = ("key", "value")
    FIELDS = (
        Field("key", "string", 0, 1),
        Field("value", "float64", 0, 1),
    )

    def __init__(self, key: str = "", value: float = 0.0) -> None:
        self.key = key
        self.value = value


class EntryData(Struct):
    __slots__ = ("entity", "values")
    FIELDS = (
        Field("entity", EntityData, 0, 1, array=True),
        Field("values", ValueData, 0, 1, array=True),
    )

    def __init__(self, entity: list[EntityData] | None = None, values: list[ValueData] | None = None) -> None:
        self.entity = [] if entity is None else entity
        self.values = [] if values is None else values


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("entries", EntryData, 0, 1, array=True, nullable=0),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        entries: list[EntryData] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries
