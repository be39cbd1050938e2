"""Generates the modules in messages/ from kio's schemas: `python -m broker.protocol.derive [--check]`.

Run by a developer after a kio upgrade; tests/protocol/test_derive.py compares the result with the committed
files. The only module of the broker that imports kio; `newer` has what kio does not know yet. Writes the text
as ruff formats it.

Differences from kio: one class per struct instead of one per struct and version; timedelta and datetime
fields become plain milliseconds and regain the `_ms` of their Kafka name; error codes become int, UUIDs 16
raw bytes; two structs of one API with the same name but different layouts get the prefix `Request` or
`Response`.
"""

import argparse
import dataclasses
import datetime
import enum
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from struct import calcsize
from typing import Any, NamedTuple

import kio
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import classify_field, is_optional

from broker.protocol import newer
from broker.protocol.newer import FieldVersion
from broker.protocol.schema import FIXED, Field

UNSET = dataclasses.MISSING
LINE = 110
EXPORTS = ("Buffer", "Message", "Records", "Struct", "field")
MESSAGES = Path(__file__).parent / "messages"
HEADER = "Derived from kio {version} by `python -m broker.protocol.derive`; edits are lost."
MILLISECONDS = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
WIRE_TYPES = MILLISECONDS | {"error_code": "int16"}
THROTTLE_TIME = "throttle_time_ms"
KINDS = ("request", "response", "data")
NOT_SERVED = frozenset((4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82))
"""The API keys without a module: retired ones, and those of controllers.

To add an API, remove its key and derive its module.
"""
KEYS = {name: key for key, name in api_key_map.items()} | {name: key for key, (name, _) in newer.APIS.items()}
SERVED = frozenset(name for name, key in KEYS.items() if key not in NOT_SERVED) | {
    "consumer_protocol_assignment",
    "consumer_protocol_subscription",
}
"""The schemas with a module: the APIs that the broker serves or the gateway decodes, and the payloads of
JoinGroup and SyncGroup.
"""
TOGETHER = {
    "acls": ("describe_acls", "create_acls", "delete_acls"),
    "client_quotas": ("describe_client_quotas", "alter_client_quotas"),
    "delegation_tokens": (
        "create_delegation_token",
        "renew_delegation_token",
        "expire_delegation_token",
        "describe_delegation_token",
    ),
    "log_dirs": ("alter_replica_log_dirs", "describe_log_dirs"),
    "partition_reassignments": ("alter_partition_reassignments", "list_partition_reassignments"),
    "raft_voters": ("add_raft_voter", "remove_raft_voter"),
    "scram_credentials": ("describe_user_scram_credentials", "alter_user_scram_credentials"),
    "share_group_offsets": (
        "describe_share_group_offsets",
        "alter_share_group_offsets",
        "delete_share_group_offsets",
    ),
    "telemetry": ("get_telemetry_subscriptions", "push_telemetry"),
}
"""The modules of several APIs, of which one reads back what another writes. Each other API has its own."""
MODULE_OF = {name: module for module, names in TOGETHER.items() for name in names}
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


Versions = Mapping[int, Mapping[str, FieldVersion]]


class Schema(NamedTuple):
    """A request, response or data schema with all of its structs, including the top-level one."""

    name: str
    flexible: int | None
    structs: dict[str, dict[int, dict[str, FieldVersion]]]

    @property
    def versions(self) -> Versions:
        return self.structs[self.name]


Apis = list[tuple[int | None, Mapping[str, Schema]]]
"""The schemas of the APIs of one module by kind, with the API key, if it is one."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.protocol.derive", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file would change")
    check = parser.parse_args(arguments).check
    derived = derive()
    stale = [name for name, text in derived.items() if _read(MESSAGES / name) != text]
    orphans = sorted({path.name for path in MESSAGES.glob("*.py")} - derived.keys())
    for name in stale:
        if not check:
            (MESSAGES / name).write_text(derived[name], encoding="utf-8")
        sys.stdout.write(f"{'differs' if check else 'written'}: {name}\n")
    for name in orphans:
        if not check:
            (MESSAGES / name).unlink()
        sys.stdout.write(f"{'does not belong' if check else 'removed'}: {name}\n")
    return 1 if check and (stale or orphans) else 0


def derive() -> dict[str, str]:
    """Return the text of every file in messages/, by file name."""
    header = HEADER.format(version=kio.__version__)
    modules: dict[str, Apis] = {}
    apis: list[str] = []
    data: list[str] = []
    for name in sorted(SERVED, key=lambda name: (KEYS.get(name, 999), name)):
        module = MODULE_OF.get(name, name)
        schemas = {kind: schema for kind in KINDS if (schema := _read_schema(name, kind))}
        if "request" in schemas:
            apis.append(f'{KEYS[name]}: ("{module}", "{schemas["request"].name.removesuffix("Request")}"),')
            _separate_names(schemas["request"], schemas["response"])
        else:
            data.append(f'"{name}": "{schemas["data"].name}",')
        modules.setdefault(module, []).append((KEYS.get(name), schemas))
    files = {f"{module}.py": render_module(module, found, header) for module, found in modules.items()}
    files["__init__.py"] = render_index(apis, data, _throttle_times(), header)
    return files


def _throttle_times() -> list[str]:
    """Return a line for each API whose responses have a throttle time: versions, and offset in the body."""
    lines = []
    for name, key in KEYS.items():
        schema = _read_schema(name, "response")
        if schema is None:
            continue
        places = {
            version: place
            for version, fields in schema.versions.items()
            if (place := _throttle_time_offset(fields)) is not None
        }
        if not places:
            continue
        since, until, (place,) = min(places), max(places), set(places.values())
        if len(places) != until - since + 1:
            raise ValueError(f"{schema.name} has no throttle time in a version between {since} and {until}")
        lines.append(f"{key}: ({since}, {until}, {place}),")
    return sorted(lines, key=lambda line: int(line.partition(":")[0]))


def _throttle_time_offset(fields: Mapping[str, FieldVersion]) -> int | None:
    plain = {name: field for name, field in fields.items() if field.tag is None}
    if THROTTLE_TIME not in plain:
        return None
    before = list(plain.values())[: list(plain).index(THROTTLE_TIME)]
    if all(field.type in FIXED and not field.array for field in before):
        return sum(calcsize(f">{FIXED[field.type]}") for field in before)
    if len(before) != len(plain) - 1:
        raise ValueError(f"a throttle time neither at a fixed offset nor last: {list(plain)}")
    return -4


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _read_schema(api: str, kind: str) -> Schema | None:
    if api not in schema_name_map:
        return _newer_api(api, kind)
    structs: dict[str, dict[int, dict[str, FieldVersion]]] = {}
    name = ""
    flexible: list[int] = []
    versions = schema_name_map[api]
    for version in sorted(versions):
        for entity_type, path in versions[version].items():
            if entity_type.name == kind:
                module, _, name = path.partition(":")
                entity = getattr(import_module(module), name)
                _collect(entity, version, structs)
                if entity.__flexible__:
                    flexible.append(version)
    if not structs:
        return None
    if api in newer.VERSIONS:
        _add_newer(api, kind, max(versions), structs)
    return Schema(name, min(flexible, default=None), structs)


def _newer_api(api: str, kind: str) -> Schema | None:
    structs = newer.APIS[KEYS[api]][1].get(kind)
    if structs is None:
        return None
    return Schema(list(structs)[-1], 0, {name: {0: dict(fields)} for name, fields in structs.items()})


def _add_newer(
    api: str, kind: str, last: int, structs: dict[str, dict[int, dict[str, FieldVersion]]]
) -> None:
    """Add the version that follows the last one of kio."""
    version, changes = newer.VERSIONS[api]
    if version != last + 1:
        raise ValueError(f"{api}: kio has versions up to {last}, so that {version} is not the next one")
    for name, versions in structs.items():
        if last in versions:
            versions[version] = newer.changed(name, versions[last], changes)
    for name, fields in newer.ADDED.get(api, {}).get(kind, {}).items():
        structs[name] = {version: dict(fields)}


def _collect(entity: Any, version: int, structs: dict[str, dict[int, dict[str, FieldVersion]]]) -> None:
    fields: dict[str, FieldVersion] = {}
    for field in dataclasses.fields(entity):
        found = classify_field(field)
        kafka_type: str | None = field.metadata.get("kafka_type")
        if kafka_type is None:
            _collect(found.type_, version, structs)
        name = f"{field.name}_ms" if kafka_type in MILLISECONDS else field.name
        name = newer.RENAMED.get((entity.__name__, name), name)
        # kio has None for the zero UUID and for time -1; neither is null on the wire.
        nullable = is_optional(field) and kafka_type != "datetime_i64"
        fields[name] = FieldVersion(
            WIRE_TYPES.get(kafka_type, kafka_type) if kafka_type else found.type_.__name__,
            found.is_array,
            nullable and (kafka_type != "uuid" or (found.is_array and _array_is_optional(field))),
            field.metadata.get("tag"),
            _plain_default(field, kafka_type, is_optional(field)),
        )
    structs.setdefault(entity.__name__, {})[version] = fields


def _array_is_optional(field: Any) -> bool:
    return type(None) in getattr(field.type, "__args__", ())


def _plain_default(field: Any, kafka_type: str | None, optional: bool) -> object:
    default = field.default
    if kafka_type == "datetime_i64" and (default is None or (default is UNSET and optional)):
        return -1
    if isinstance(default, datetime.datetime):
        default -= EPOCH
    if isinstance(default, datetime.timedelta):
        return default // datetime.timedelta(milliseconds=1)
    if isinstance(default, enum.Enum):
        return default.value
    if kafka_type == "uuid" and default is None:
        return UNSET
    return None if dataclasses.is_dataclass(default) else default


def _separate_names(request: Schema, response: Schema) -> None:
    """Rename, in both schemas, structs with one name but two layouts, and their nested structs."""
    shared = request.structs.keys() & response.structs.keys()
    differing = {name for name in shared if request.structs[name] != response.structs[name]}
    while True:
        holders = {
            name
            for name in shared - differing
            if any(
                field.type in differing
                for fields in request.structs[name].values()
                for field in fields.values()
            )
        }
        if not holders:
            break
        differing |= holders
    for schema, prefix in ((request, "Request"), (response, "Response")):
        renamed = {
            prefix + name if name in differing else name: {
                version: {
                    field: seen._replace(type=prefix + seen.type) if seen.type in differing else seen
                    for field, seen in fields.items()
                }
                for version, fields in versions.items()
            }
            for name, versions in schema.structs.items()
        }
        schema.structs.clear()
        schema.structs.update(renamed)


def render_module(module: str, apis: Apis, header: str) -> str:
    title = module.replace("_", " ").capitalize()
    keys = [str(key) for key, _ in apis if key is not None]
    if keys:
        title += f", API key{'s' if len(keys) > 1 else ''} {', '.join(keys)}"
    body: list[str] = []
    written: dict[str, Versions] = {}
    for key, schemas in apis:
        for kind, schema in schemas.items():
            for name, versions in _innermost_first(schema).items():
                if name not in written:
                    written[name] = versions
                    base = _message_base(key, schema) if name == schema.name else "Struct"
                    body += ["", "", *_render_struct(name, base, versions, kind)]
                elif written[name] != versions:
                    raise ValueError(f"{module} has two structs with the name {name}")
    text = "\n".join(body)
    imports = [name for name in EXPORTS if re.search(rf"\b{name}\b", text)]
    return "\n".join(
        [
            f'"""{title}. {header}"""',
            "",
            f"from broker.protocol.schema import {', '.join(imports)}",
            text,
            "",
        ]
    )


def _innermost_first(schema: Schema) -> dict[str, dict[int, dict[str, FieldVersion]]]:
    order: dict[str, dict[int, dict[str, FieldVersion]]] = {}

    def visit(name: str) -> None:
        for fields in schema.structs[name].values():
            for field in fields.values():
                if field.type in schema.structs and field.type not in order:
                    visit(field.type)
        order[name] = schema.structs[name]

    visit(schema.name)
    return order


def _message_base(key: int | None, schema: Schema) -> str:
    base = "Message" if key is None else f"Message, api_key={key}"
    base += f", versions=({min(schema.versions)}, {max(schema.versions)})"
    return base if schema.flexible is None else f"{base}, flexible={schema.flexible}"


def _render_struct(name: str, base: str, versions: Versions, kind: str) -> Iterator[str]:
    yield f"class {name}({base}):"
    for field in _field_order(versions):
        yield from _render_field(_merge(field, versions), kind)
    if not any(versions.values()):
        yield "    pass"


class MergedField(NamedTuple):
    """A field over all versions."""

    name: str
    seen: FieldVersion
    since: int
    until: int
    nullable: int | None

    @property
    def is_struct(self) -> bool:
        return self.seen.type[0].isupper()

    @property
    def default(self) -> int | float | str | bytes | None:
        """The default to declare: None if the type's own default applies, as in schema.py."""
        given = self.seen.default
        if self.is_struct or not isinstance(given, int | float | str | bytes):
            return None
        own = Field(self.name, self.seen.type, self.since, self.until, self.seen.array, self.nullable).initial
        return None if given == own else given


def _merge(name: str, versions: Versions) -> MergedField:
    present = {version: fields[name] for version, fields in versions.items() if name in fields}
    since, until = min(present), max(present)
    nullable = min((version for version, seen in present.items() if seen.nullable), default=None)
    seen = present[until]
    for version in range(since, until + 1):
        expected = seen._replace(nullable=nullable is not None and version >= nullable)
        if present[version] != expected:
            raise ValueError(f"{name} in version {version} is {present[version]}, expected {expected}")
    return MergedField(name, seen, since, until, nullable)


def _field_order(versions: Versions) -> list[str]:
    """Return one order of all fields that is consistent with every version's own order."""
    order: list[str] = []
    for version in sorted(versions, reverse=True):
        fields = list(versions[version])
        for place, field in enumerate(fields):
            if field not in order:
                after = max((order.index(before) + 1 for before in fields[:place]), default=0)
                order.insert(after, field)
    for version, present in versions.items():
        if [field for field in order if field in present] != list(present):
            raise ValueError(
                f"version {version} has its fields in an order that no other version has: {present}"
            )
    return order


def _render_field(field: MergedField, kind: str) -> list[str]:
    """Return the declaration, broken as ruff format does."""
    wire_type = field.seen.type if field.is_struct else f'"{field.seen.type}"'
    parts = [wire_type, str(field.since), str(field.until)]
    if field.seen.array:
        parts.append("array=True")
    if field.nullable is not None:
        parts.append(f"nullable={field.nullable}")
    if field.seen.tag is not None:
        parts.append(f"tag={field.seen.tag}")
    if field.default is not None:
        parts.append("default=" + repr(field.default).replace("'", '"'))
    start, arguments = f"    {field.name}: {_annotation(field, kind)} = field(", ", ".join(parts)
    line = f"{start}{arguments})"
    return [line] if len(line) <= LINE else [start, f"        {arguments}", "    )"]


def _element(field: MergedField, kind: str) -> str:
    names = {"string": "str", "bytes": "Buffer", "uuid": "bytes", "bool": "bool", "float64": "float"}
    names["records"] = "Records" if kind == "response" else "Buffer"
    return field.seen.type if field.is_struct else names.get(field.seen.type, "int")


def _annotation(field: MergedField, kind: str) -> str:
    element = f"list[{_element(field, kind)}]" if field.seen.array else _element(field, kind)
    is_optional_struct = field.is_struct and not field.seen.array and field.seen.tag is not None
    return f"{element} | None" if field.nullable is not None or is_optional_struct else element


def render_index(apis: list[str], data: list[str], throttle_times: list[str], header: str) -> str:
    return textwrap.dedent('''\
        """The modules of the messages: module and class prefix by API key, class by data schema; and where
        responses have their throttle time.

        {header}
        Imports nothing: codec imports a module on the first use of its messages.
        """

        APIS = {{
        {apis}
        }}

        DATA = {{
        {data}
        }}

        THROTTLE_TIMES = {{
        {throttle_times}
        }}
        """First and last known version with `throttle_time_ms`, and its offset in the body, by API key.

        -4: the last field before the tagged fields, after fields of variable size. Covers all APIs of the
        schemas, not only those with a module.
        """
    ''').format(
        header=header,
        apis="\n".join(f"    {line}" for line in apis),
        data="\n".join(f"    {line}" for line in data),
        throttle_times="\n".join(f"    {line}" for line in throttle_times),
    )


if __name__ == "__main__":
    sys.exit(main())
