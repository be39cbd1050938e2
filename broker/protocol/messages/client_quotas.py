"""Client quotas, API keys 48, 49. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ComponentData(Struct):
    entity_type: str = field("string", 0, 1)
    match_type: int = field("int8", 0, 1)
    match: str | None = field("string", 0, 1, nullable=0)


class DescribeClientQuotasRequest(Message, api_key=48, versions=(0, 1), flexible=1):
    components: list[ComponentData] = field(ComponentData, 0, 1, array=True)
    strict: bool = field("bool", 0, 1)


class EntityData(Struct):
    entity_type: str = field("string", 0, 1)
    entity_name: str | None = field("string", 0, 1, nullable=0)


class ValueData(Struct):
    key: str = field("string", 0, 1)
    value: float = field("float64", 0, 1)


class EntryData(Struct):
    entity: list[EntityData] = field(EntityData, 0, 1, array=True)
    values: list[ValueData] = field(ValueData, 0, 1, array=True)


class DescribeClientQuotasResponse(Message, api_key=48, versions=(0, 1), flexible=1):
    throttle_time_ms: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    entries: list[EntryData] | None = field(EntryData, 0, 1, array=True, nullable=0)


class OpData(Struct):
    key: str = field("string", 0, 1)
    value: float = field("float64", 0, 1)
    remove: bool = field("bool", 0, 1)


class RequestEntryData(Struct):
    entity: list[EntityData] = field(EntityData, 0, 1, array=True)
    ops: list[OpData] = field(OpData, 0, 1, array=True)


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible=1):
    entries: list[RequestEntryData] = field(RequestEntryData, 0, 1, array=True)
    validate_only: bool = field("bool", 0, 1)


class ResponseEntryData(Struct):
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    entity: list[EntityData] = field(EntityData, 0, 1, array=True)


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible=1):
    throttle_time_ms: int = field("int32", 0, 1)
    entries: list[ResponseEntryData] = field(ResponseEntryData, 0, 1, array=True)
