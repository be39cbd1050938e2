"""Random kio entities, the equal structs of ours, and their bytes.

Used by the tests of the codec. kio's own decoder is not used because it aborts the process on some hostile
input; equal bytes in one direction and equal values in the other prove as much.
"""

import dataclasses
import datetime
import io
import random
import struct
import uuid
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import classify_field, is_optional

from broker.protocol.codec import data_class, request_class, response_class
from broker.protocol.derive import SERVED
from broker.protocol.newer import RENAMED
from broker.protocol.schema import FIXED, LIST, Field, Message, Struct, in_version

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
INTEGERS = {
    "int8": (8, True),
    "int16": (16, True),
    "uint16": (16, False),
    "int32": (32, True),
    "int64": (64, True),
}
API_KEYS = {name: key for key, name in api_key_map.items() if name in SERVED}


class Schema(NamedTuple):
    """A request, response or data schema in one version: kio's class and ours."""

    name: str
    kind: str
    version: int
    theirs: Any
    ours: type[Message]

    @property
    def api_key(self) -> int:
        return API_KEYS[self.name]


NAMES = sorted(SERVED & schema_name_map.keys())


def schemas(name: str) -> Iterator[Schema]:
    for version in sorted(schema_name_map[name]):
        for entity_type, path in schema_name_map[name][version].items():
            kind = entity_type.name
            if kind == "data":
                ours = data_class(name)
            else:
                ours = (request_class if kind == "request" else response_class)(API_KEYS[name])
            yield Schema(name, kind, version, resolve_name(path), ours)


def random_entity(entity: Any, rng: random.Random) -> Any:
    """Return a random value of a kio class; lengths near the limits of the one-byte varint are likely."""
    return entity(**{field.name: _random_field(field, rng) for field in dataclasses.fields(entity)})


def _random_field(field: Any, rng: random.Random) -> Any:
    optional = is_optional(field)
    found = classify_field(field)
    kafka_type = field.metadata.get("kafka_type")
    if "tag" in field.metadata and rng.random() < 0.5:
        return get_tagged_field_default(field)
    if kafka_type is None:
        if found.is_array:
            if optional and rng.random() < 0.2:
                return None
            return tuple(random_entity(found.type_, rng) for _ in range(rng.choice((0, 1, 1, 2))))
        return None if optional and rng.random() < 0.3 else random_entity(found.type_, rng)
    if not found.is_array:
        return _random_primitive(kafka_type, optional, rng)
    array_optional = type(None) in getattr(field.type, "__args__", ())
    if array_optional and rng.random() < 0.2:
        return None
    count = rng.choice((0, 1, 2, 3, 126, 127, 128)) if kafka_type != "string" else rng.choice((0, 1, 5))
    return tuple(_random_primitive(kafka_type, kafka_type == "uuid", rng) for _ in range(count))


def _random_primitive(kafka_type: str, optional: bool, rng: random.Random) -> Any:
    if optional and rng.random() < 0.3:
        return None
    if kafka_type in INTEGERS:
        bits, signed = INTEGERS[kafka_type]
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return rng.choice((low, high, 0, 1, rng.randint(low, high)))
    if kafka_type == "string":
        return "".join(rng.choice("aZ09-_.é√") for _ in range(_random_length(rng)))
    if kafka_type in ("bytes", "records"):
        return rng.randbytes(rng.choice((_random_length(rng), 4095, 4096, 4097)) if rng.random() < 0.2 else 5)
    if kafka_type == "bool":
        return rng.random() < 0.5
    if kafka_type == "float64":
        return rng.choice((0.0, -1.5, rng.uniform(-1e12, 1e12)))
    if kafka_type == "uuid":
        return uuid.UUID(bytes=rng.randbytes(16))
    if kafka_type == "error_code":
        return rng.choice(list(ErrorCode))
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        return rng.choice((-1, 0, 30_000, rng.randint(-(2**31), 2**31 - 1))) * MILLISECOND
    assert kafka_type == "datetime_i64"
    return EPOCH + rng.choice((0, 1, rng.randint(0, 2**41))) * MILLISECOND


def _random_length(rng: random.Random) -> int:
    return rng.choice((0, 1, 7, 7, 7, 13, 125, 126, 127, 128, 300))


def translate(theirs: Any, ours: type[Struct]) -> Any:
    """Return our struct with the values of kio's entity. Tagged structs at their default become None."""
    values = {}
    renamed = {new: old for (of, old), new in RENAMED.items() if of == type(theirs).__name__}
    for field in ours.FIELDS:
        if field.name in renamed.values():  # of a version that kio does not know
            values[field.name] = _absent(field)
            continue
        if field.name in renamed:
            values[field.name] = _translate_value(getattr(theirs, renamed[field.name]), field)
            continue
        name = field.name if hasattr(theirs, field.name) else field.name.removesuffix("_ms")
        if hasattr(theirs, name):
            values[field.name] = _translate_value(getattr(theirs, name), field)
        else:
            values[field.name] = _absent(field)
    return ours(**values)


def _absent(field: Field) -> Any:
    if field.initial is LIST:
        return []
    if isinstance(field.type, str) or field.tag is not None or field.nullable is not None:
        return field.initial
    return field.type()


def _translate_value(value: Any, field: Field) -> Any:
    if field.array:
        return None if value is None else [_translate_element(item, field) for item in value]
    if field.tag is not None and not isinstance(field.type, str):
        made = _translate_element(value, field)
        return None if made == field.type() else made
    return _translate_element(value, field)


def _translate_element(value: Any, field: Field) -> Any:
    if value is None:
        return {"uuid": bytes(16), "int64": -1}.get(str(field.type))
    if not isinstance(field.type, str):
        return translate(value, field.type)
    if isinstance(value, datetime.datetime):
        value -= EPOCH
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value.value if isinstance(value, ErrorCode) else value


def their_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def their_frame(entity: Any, **header: Any) -> bytes:
    """Return size, header and body."""
    content = their_bytes(type(entity).__header_schema__(**header)) + their_bytes(entity)
    return struct.pack(">i", len(content)) + content


def plain_bytes(message: Message, version: int, unknown_tags: dict[int, bytes] | None = None) -> bytes:
    """Return the body as in the protocol guide, with `unknown_tags` in every struct. Slow and simple."""
    flexible = message.FLEXIBLE is not None and version >= message.FLEXIBLE
    return _Plain(version, flexible, unknown_tags or {}).struct(message)


class _Plain:
    def __init__(self, version: int, flexible: bool, unknown_tags: dict[int, bytes]) -> None:
        self.version = version
        self.flexible = flexible
        self.unknown_tags = unknown_tags

    def struct(self, value: Struct) -> bytes:
        out = b""
        tags = dict(self.unknown_tags)
        for field in in_version(type(value), self.version):
            value_of = getattr(value, field.name)
            if field.tag is None:
                out += self.value(value_of, field)
            elif value_of not in (_absent(field), None):
                tags[field.tag] = self.value(value_of, field)
        if self.flexible:
            out += varint(len(tags))
            for tag in sorted(tags):
                out += varint(tag) + varint(len(tags[tag])) + tags[tag]
        return out

    def value(self, value: Any, field: Field) -> bytes:
        if field.array:
            length = self.length(None if value is None else len(value), ">i")
            return length + b"".join(self.element(item, field) for item in value or ())
        if not isinstance(field.type, str) and field.nullable is not None:
            return b"\xff" if value is None else b"\1" + self.struct(value)
        return self.element(value, field)

    def element(self, value: Any, field: Field) -> bytes:
        if not isinstance(field.type, str):
            return self.struct(value)
        if field.type in FIXED:
            return struct.pack(">" + FIXED[field.type], value)
        if value is None:
            return self.length(None, ">h" if field.type == "string" else ">i")
        data = value.encode() if isinstance(value, str) else bytes(value)
        return self.length(len(data), ">h" if field.type == "string" else ">i") + data

    def length(self, count: int | None, legacy: str) -> bytes:
        if self.flexible:
            return varint(0 if count is None else count + 1)
        return struct.pack(legacy, -1 if count is None else count)


def varint(value: int) -> bytes:
    return varint_tail(value) if value > 127 else bytes((value,))


def varint_tail(value: int) -> bytes:
    return bytes((value & 127 | 128,)) + varint(value >> 7)


def every_response() -> Iterator[tuple[str, int, int]]:
    """Yield name, key and version of every response of kio, whether or not we have a module for it."""
    for key, name in api_key_map.items():
        for version in sorted(schema_name_map[name]):
            yield name, key, version


def response_entity(name: str, version: int) -> Any:
    """Return kio's class of a response."""
    (path,) = (
        path for entity_type, path in schema_name_map[name][version].items() if entity_type.name == "response"
    )
    return resolve_name(path)


def field_names(name: str, version: int) -> set[str]:
    """Return the names of all fields of a response, including those of its structs."""
    return set(_field_names(response_entity(name, version)))


def _field_names(entity: Any) -> Iterator[str]:
    for field in dataclasses.fields(entity):
        yield field.name
        if field.metadata.get("kafka_type") is None:
            yield from _field_names(classify_field(field).type_)


def fields_of(entity: Any) -> tuple[Any, ...]:
    return dataclasses.fields(entity)


def without_tags(entity: Any, milliseconds: dict[str, int]) -> Any:
    """Return the entity with its own tagged fields at their default, and the named times replaced."""
    values: dict[str, Any] = {
        field.name: get_tagged_field_default(field)
        for field in dataclasses.fields(entity)
        if "tag" in field.metadata
    }
    return dataclasses.replace(
        entity, **values, **{name: value * MILLISECOND for name, value in milliseconds.items()}
    )
