"""A schema as a request gives it, and its description for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from webui.schema import Invalid, Record, Text

LONGEST: Final = 32_767
"""Characters of a schema."""

FORMATS: Final = ("avro", "descriptor_set", "proto")

SCHEMA: Final = Record(
    {
        **dict.fromkeys(FORMATS, Text(min_length=1, max_length=LONGEST)),
        "message": Text(min_length=1, max_length=1_024),
        "framing": Text(choices=("none", "confluent")),
    },
    optional=frozenset({*FORMATS, "message", "framing"}),
    min_properties=1,
)
"""One of `avro` (a schema as JSON), `descriptor_set` (a FileDescriptorSet in base64) and `proto` (the text of
a .proto file), the last two with the full name of the `message`. `framing` confluent: the bytes begin with a
zero byte and a schema id of four bytes, as serializers of a schema registry write them.
"""


class DataSchema(msgspec.Struct, frozen=True):
    """`format` is one of FORMATS, `text` the schema in it."""

    format: str
    text: str
    message: str
    is_framed: bool


def read_schema(given: Mapping[str, Any] | None, where: str) -> DataSchema | None:
    """Return the schema of a valid `SCHEMA`, None without one. Raises Invalid."""
    if given is None:
        return None
    named = [name for name in FORMATS if name in given]
    if len(named) != 1:
        raise Invalid(where, f"must have one of {', '.join(FORMATS)}")
    (name,) = named
    if (name == "avro") is ("message" in given):
        need = "a FileDescriptorSet and a .proto file need the name of the message, an Avro schema has none"
        raise Invalid(f"{where}/message", need)
    return DataSchema(name, given[name], given.get("message", ""), given.get("framing") == "confluent")
