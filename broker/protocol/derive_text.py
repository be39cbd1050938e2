"""Writes the text of the derived modules from kio's schemas, formatted as by ruff.

Called by derive.py only. Independent of kio and of files.
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.protocol.schema import LIST, ZERO_UUID, Field, Initial

UNSET = dataclasses.MISSING
LINE = 110
NOQA = "# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire"
EXPORTS = ("ZERO_UUID", "Buffer", "Field", "Message", "Records", "Struct")


class Seen(NamedTuple):
    """A field in one version of kio's schema."""

    type: str
    array: bool
    nullable: bool
    tag: int | None
    default: object


Versions = Mapping[int, Mapping[str, Seen]]


class Schema(NamedTuple):
    """A request, response or data schema with all of its structs, including the top-level one."""

    name: str
    flexible: int | None
    structs: dict[str, dict[int, dict[str, Seen]]]

    @property
    def versions(self) -> Versions:
        return self.structs[self.name]


def render_module(module: str, key: int | None, schemas: Mapping[str, Schema], header: str) -> str:
    title = module.replace("_", " ").capitalize() + (f", API key {key}" if key is not None else "")
    body: list[str] = []
    written: set[str] = set()
    for kind, schema in schemas.items():
        for name, versions in _innermost_first(schema).items():
            if name in written:
                continue
            written.add(name)
            message = _message_lines(key, schema) if name == schema.name else []
            body += ["", "", *_render_struct(name, versions, kind, message)]
    text = "\n".join(body)
    imports = [name for name in EXPORTS if re.search(rf"\b{name}\b", text)]
    return "\n".join(
        [
            f'"""{title}. {header}"""',
            "",
            NOQA,
            "",
            f"from broker.protocol.schema import {', '.join(imports)}",
            text,
            "",
        ]
    )


def _innermost_first(schema: Schema) -> dict[str, dict[int, dict[str, Seen]]]:
    order: dict[str, dict[int, dict[str, Seen]]] = {}

    def visit(name: str) -> None:
        for fields in schema.structs[name].values():
            for field in fields.values():
                if field.type in schema.structs and field.type not in order:
                    visit(field.type)
        order[name] = schema.structs[name]

    visit(schema.name)
    return order


def _message_lines(key: int | None, schema: Schema) -> list[str]:
    lines = [] if key is None else [f"    API_KEY = {key}"]
    lines.append(f"    VERSIONS = ({min(schema.versions)}, {max(schema.versions)})")
    return lines if schema.flexible is None else [*lines, f"    FLEXIBLE = {schema.flexible}"]


def _render_struct(name: str, versions: Versions, kind: str, message: list[str]) -> Iterator[str]:
    merged = {field: _merge(field, versions) for field in _field_order(versions)}
    yield f"class {name}({'Message' if message else 'Struct'}):"
    yield from _fit_tuple("    __slots__ = ", [f'"{field}"' for field in merged])
    yield from message
    if not merged:
        return
    yield from _fit_tuple("    FIELDS = ", [_render_field(field) for field in merged.values()], lines=True)
    yield ""
    parameters = [
        f"{field.name}: {_annotation(field, kind)} = {_parameter(field)}" for field in merged.values()
    ]
    yield from _fit_parameters(["self", *parameters])
    for field in merged.values():
        line = f"        self.{field.name} = {_initial(field)}"
        yield from [line] if len(line) <= LINE else _wrap_value(line)


class Merged(NamedTuple):
    """A field over all versions."""

    name: str
    seen: Seen
    since: int
    until: int
    nullable: int | None

    @property
    def is_struct(self) -> bool:
        return self.seen.type[0].isupper()

    @property
    def field(self) -> Field:
        """The field as in schema.py, with a nested struct's class replaced by its name."""
        default = self.seen.default
        given = default if isinstance(default, int | float | str | bytes) else None
        kind = "bytes" if self.is_struct else self.seen.type
        plain = Field(self.name, kind, self.since, self.until, self.seen.array, self.nullable, self.seen.tag)
        return plain._replace(default=given) if given != plain.initial else plain

    @property
    def initial(self) -> Initial:
        return None if self.is_struct and not self.seen.array else self.field.initial


def _merge(name: str, versions: Versions) -> Merged:
    present = {version: fields[name] for version, fields in versions.items() if name in fields}
    since, until = min(present), max(present)
    nullable = min((version for version, seen in present.items() if seen.nullable), default=None)
    seen = present[until]
    for version in range(since, until + 1):
        expected = seen._replace(nullable=nullable is not None and version >= nullable)
        if present[version] != expected:
            raise ValueError(f"{name} in version {version} is {present[version]}, expected {expected}")
    return Merged(name, seen, since, until, nullable)


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


def _render_field(field: Merged) -> str:
    kind = field.seen.type if field.is_struct else f'"{field.seen.type}"'
    parts = [f'"{field.name}"', kind, str(field.since), str(field.until)]
    if field.seen.array:
        parts.append("array=True")
    if field.nullable is not None:
        parts.append(f"nullable={field.nullable}")
    if field.seen.tag is not None:
        parts.append(f"tag={field.seen.tag}")
    if field.field.default is not None:
        parts.append(f"default={_literal(field.field.default)}")
    return f"Field({', '.join(parts)})"


def _literal(value: object) -> str:
    if value == ZERO_UUID and isinstance(value, bytes):
        return "ZERO_UUID"
    return repr(value).replace("'", '"')


def _element(field: Merged, kind: str) -> str:
    names = {"string": "str", "bytes": "Buffer", "uuid": "bytes", "bool": "bool", "float64": "float"}
    names["records"] = "Records" if kind == "response" else "Buffer"
    return field.seen.type if field.is_struct else names.get(field.seen.type, "int")


def _annotation(field: Merged, kind: str) -> str:
    element = f"list[{_element(field, kind)}]" if field.seen.array else _element(field, kind)
    optional = field.nullable is not None or field.seen.array or field.is_struct
    return f"{element} | None" if optional else element


def _parameter(field: Merged) -> str:
    return "None" if field.initial == LIST else _literal(field.initial)


def _initial(field: Merged) -> str:
    """Return the right side of the assignment in __init__; a fresh list or struct if None is not allowed."""
    if field.initial == LIST:
        return f"[] if {field.name} is None else {field.name}"
    if field.is_struct and field.nullable is None and field.seen.tag is None:
        return f"{field.seen.type}() if {field.name} is None else {field.name}"
    return field.name


def _fit_tuple(start: str, parts: list[str], *, lines: bool = False) -> list[str]:
    """Break as ruff format does: on one line, or one part to a line; `lines` forces the latter."""
    line = f"{start}({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if len(line) <= LINE and not (lines and len(parts) > 1):
        return [line]
    return [f"{start}(", *(f"        {part}," for part in parts), "    )"]


def _fit_parameters(parts: list[str]) -> list[str]:
    line = f"    def __init__({', '.join(parts)}) -> None:"
    if len(line) <= LINE:
        return [line]
    inside = f"        {', '.join(parts)}"
    lines = [inside] if len(inside) <= LINE else [f"        {part}," for part in parts]
    return ["    def __init__(", *lines, "    ) -> None:"]


def _wrap_value(line: str) -> list[str]:
    target, _, value = line.partition(" = ")
    return [f"{target} = (", f"            {value}", "        )"]


def render_index(apis: list[str], data: list[str], header: str) -> str:
    return textwrap.dedent('''\
        """The modules of the messages: module and class prefix by API key, class by data schema.

        {header}
        Imports nothing: codec imports a module on the first use of its messages.
        """

        APIS = {{
        {apis}
        }}

        DATA = {{
        {data}
        }}
    ''').format(
        header=header,
        apis="\n".join(f"    {line}" for line in apis),
        data="\n".join(f"    {line}" for line in data),
    )
