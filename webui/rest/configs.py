"""Settings of brokers and topics in answers, and changes of them in requests.

Used by webui.rest.broker_configs and webui.rest.topics.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import asdict

from broker.controller.commands import ConfigOp, OpType
from broker.controller.describe import UNKNOWN_TYPE, ConfigSource
from broker.controller.rows.broker import ConfigRow
from broker.controller.rows.fields import AnyText, Word, one_of
from webui.schema import Flag, Listing, OneOf, Record, Text
from webui.tables.answers import as_json

SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "dynamic-broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "dynamic-default",
    ConfigSource.STATIC_BROKER: "file",
    ConfigSource.DEFAULT: "default",
}
TYPES: Final = {
    UNKNOWN_TYPE: "unknown",
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
"""DescribeConfigs' ConfigType."""

SourceName = Annotated[str, one_of(*SOURCES.values())]
Prose = Annotated[str, msgspec.Meta(max_length=8_192)]


class Synonym(msgspec.Struct, frozen=True):
    """One source of a value; the first in the list is in force."""

    name: str
    value: AnyText | None
    source: SourceName


class Config(msgspec.Struct, frozen=True):
    """One setting. From `default` on the fields are those of `ConfigRange`."""

    name: str
    value: AnyText | None
    source: SourceName
    type: Annotated[str, one_of(*TYPES.values())]
    dynamic: bool
    sensitive: bool
    documentation: Prose
    default: AnyText | None
    default_words: Word
    allowed: Prose
    choices: tuple[str, ...]
    unit: Word
    per_broker: bool
    synonyms: tuple[Synonym, ...]


def config_json(row: ConfigRow) -> dict[str, Any]:
    synonyms = tuple(Synonym(each.name, each.value, SOURCES[each.source]) for each in row.synonyms)
    config = Config(
        row.name,
        row.value,
        SOURCES[row.source],
        TYPES[row.type],
        is_dynamic(row),
        row.sensitive,
        row.documentation,
        **asdict(row.range),
        synonyms=synonyms,
    )
    return as_json(config)


def is_dynamic(row: ConfigRow) -> bool:
    """Return whether the setting can be changed now. DescribeConfigs tells that unknown keys cannot be."""
    return not row.read_only or row.type == UNKNOWN_TYPE


LONGEST_VALUE: Final = 32_767
MAX_OPS: Final = 100

_KEY: Final = Text(max_length=256, min_length=1)
_VALUE: Final = Text(max_length=LONGEST_VALUE)
OPS: Final = Listing(
    OneOf(
        (
            Record({"key": _KEY, "value": _VALUE}),
            Record({"key": _KEY, "remove": Flag(only=True)}),
            Record({"key": _KEY, "append": _VALUE}),
            Record({"key": _KEY, "subtract": _VALUE}),
        )
    ),
    min_items=1,
    max_items=MAX_OPS,
)


def config_op(op: dict[str, Any]) -> ConfigOp:
    match op:
        case {"value": value}:
            return ConfigOp(op["key"], OpType.SET, value)
        case {"append": value}:
            return ConfigOp(op["key"], OpType.APPEND, value)
        case {"subtract": value}:
            return ConfigOp(op["key"], OpType.SUBTRACT, value)
    return ConfigOp(op["key"], OpType.DELETE)
