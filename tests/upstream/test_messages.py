"""Weir's API table and its messages are those of the Kafka that it follows, but for `differences`."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import pytest

from broker.api.registry import load
from broker.api.support import KAFKA
from broker.protocol.messages import APIS
from broker.protocol.schema import Field, Message, Struct, in_version
from tests.support import kafka_tools
from tests.upstream.differences import MESSAGES, unexplained
from tests.upstream.jars import Tables

pytestmark = kafka_tools.pytestmark

NONE: Final = range(0)


class Known(NamedTuple):
    """A field in one version. `type` is a name, or the fields of a struct. `default` None: the type's own."""

    type: "str | dict[str, Known]"
    array: bool
    nullable: bool
    tag: int | None
    default: str | None


Fields = dict[str, Known]


def versions_of(text: str | None, most: int) -> range:
    """Return the versions of `3`, `0-4`, `2+` or `none`."""
    if text in (None, "none"):
        return NONE
    assert text is not None
    if text.endswith("+"):
        return range(int(text[:-1]), most + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def stable(versions: str) -> str:
    """Return the versions without the last one if that is unstable."""
    text, _, unstable = versions.partition(" ")
    if not unstable:
        return text
    found = versions_of(text, 0)[:-1]
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def structs_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the structs of a schema by name, which its fields may share."""
    found = {each["name"]: each for each in schema.get("commonStructs", ())}
    for each in schema.get("fields", ()):
        if each.get("fields"):
            found[each["type"].removeprefix("[]")] = each
            found |= structs_of(each)
    return found


def of_kafka(fields: Mapping[str, Any], version: int, structs: Mapping[str, Mapping[str, Any]]) -> Fields:
    known: Fields = {}
    for each in fields["fields"]:
        if version not in versions_of(each["versions"], version):
            continue
        name = each["type"].removeprefix("[]")
        default = each.get("default")
        known[snake(each["name"])] = Known(
            of_kafka(structs[name], version, structs) if name in structs else name,
            each["type"].startswith("[]"),
            version in versions_of(each.get("nullableVersions"), version),
            each.get("tag") if version in versions_of(each.get("taggedVersions"), version) else None,
            None if default is None else str(default).lower(),
        )
    return known


def of_weir(struct: type[Struct], version: int) -> Fields:
    return {
        each.name: Known(
            each.type if isinstance(each.type, str) else of_weir(each.type, version),
            each.array,
            each.nullable is not None and version >= each.nullable,
            each.tag,
            _default(each),
        )
        for each in in_version(struct, version)
    }


def _default(each: Field) -> str:
    return "null" if each.initial is None else str(each.initial).lower()


def differences(kafka: Fields, own: Fields, path: str) -> Iterator[str]:
    plain = [[name for name, each in fields.items() if each.tag is None] for fields in (kafka, own)]
    if plain[0] != plain[1]:
        yield f"{path}: Kafka has {plain[0]}, Weir {plain[1]}"
    for name in kafka.keys() | own.keys():
        if name not in kafka or name not in own:
            yield f"{path}.{name}: only {'Kafka' if name in kafka else 'Weir'} has it"
            continue
        one, other = kafka[name], own[name]
        if isinstance(one.type, dict) and isinstance(other.type, dict):
            yield from differences(one.type, other.type, f"{path}.{name}")
            other = other._replace(type=one.type)
        if one.default is None or _is_same(one.default, other.default):
            other = other._replace(default=one.default)
        if one != other:
            yield f"{path}.{name}: Kafka has {one}, Weir {other}"


def _is_same(default: str, own: str | None) -> bool:
    """Return whether two defaults are equal; Kafka writes some in hexadecimal."""
    try:
        return int(default, 0) == int(own or "")
    except ValueError:
        return default == own


def messages() -> Iterator[tuple[str, type[Message]]]:
    for module, prefix in APIS.values():
        found = import_module(f"broker.protocol.messages.{module}")
        for name in (f"{prefix}Request", f"{prefix}Response"):
            yield name, getattr(found, name)


def compared(tables: Tables, name: str, message: type[Message]) -> Iterator[str]:
    schema = tables.messages[name]
    first, last = message.VERSIONS
    valid = versions_of(schema["validVersions"], last)
    if (valid[0], valid[-1]) != (first, last):
        yield f"{name}: Kafka has the versions {schema['validVersions']}, Weir {first}-{last}"
    flexible = versions_of(schema["flexibleVersions"], last)
    if (flexible[0] if flexible else None) != message.FLEXIBLE:
        yield f"{name} flexible from"
    structs = structs_of(schema)
    for version in range(max(valid[0], first), min(valid[-1], last) + 1):
        yield from differences(of_kafka(schema, version, structs), of_weir(message, version), name)


def test_the_table_of_kafkas_apis_is_kafkas(kafka: Tables) -> None:
    assert {key: stable(versions) for key, versions in kafka.apis.items()} == KAFKA


def test_no_version_is_served_that_kafka_does_not_have(kafka: Tables) -> None:
    served = {entry.key.value: (entry.min_version, entry.max_version) for entry in load()}
    assert served
    for key, (first, last) in served.items():
        found = versions_of(stable(kafka.apis[key]), 0)
        assert first in found and last in found, (key, first, last, found)


def test_messages_are_kafkas(kafka: Tables) -> None:
    found = dict.fromkeys(each for name, message in messages() for each in compared(kafka, name, message))
    assert not unexplained(found, MESSAGES)


@pytest.mark.parametrize(
    ("text", "expected"), [("3", [3]), ("0-2", [0, 1, 2]), ("1+", [1, 2, 3]), ("none", []), (None, [])]
)
def test_versions_are_read(text: str | None, expected: list[int]) -> None:
    assert list(versions_of(text, 3)) == expected


def test_a_difference_is_found() -> None:
    known = Known("int32", array=False, nullable=False, tag=None, default="-1")
    for other in (
        known._replace(type="int64"),
        known._replace(array=True),
        known._replace(nullable=True),
        known._replace(default="0"),
        known._replace(tag=1),
    ):
        assert list(differences({"a": known}, {"a": other}, "M"))
    assert list(differences({"a": known}, {"b": known}, "M"))
    assert not list(
        differences({"a": known._replace(default="0x7f")}, {"a": known._replace(default="127")}, "M")
    )
