"""Files in a request or a response: an object with lists, as JSON or YAML. Errors name the line.

Used by webui.http.app for the routes that import files, and by webui.rest.quota_files and
webui.rest.subscription_files. Files are parsed, validated and written in slices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import yaml
from msgspec.structs import replace

from broker.common.slices import Steps
from broker.common.strict_yaml import BadFileError, Fields, YamlValue, compose_in_steps, emptied
from broker.controller.commands import EntryOutcome
from webui.problem import Problem
from webui.rest.bodies import LONGEST_PART, MAX_BRACKETS, NotJson, Reader
from webui.rest.routing import Query, Reply
from webui.schema import Invalid, Listing, Record, Text
from webui.tables.json_output import encode
from webui.tables.slices import collect, consumed, free_in_slices, run_in_slices

YAML: Final = "application/yaml"
FORMATS: Final = ("json", "yaml")
FORMAT: Final = Query("format", Text(choices=FORMATS), "The format of the file.", default="json")

PREVIEWED: Final = {
    "If-Match": "The ETag of the preview; 412 if the import would not make the same changes any more."
}

Lines = Mapping[str, Sequence[int]]
"""The line, from 1, of each element of each list of a file."""

_FILE: Final = "The file"

MAX_NODES: Final = 200_000
"""Values and names of a YAML file: 10,000 rules have 150,000. A node takes 240 bytes."""

MAX_FIELDS: Final = 64
"""Fields of the object; more are refused before they are looked at."""

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


async def read_file(body: bytes, media: str, schema: Record) -> tuple[dict[str, Any], Lines]:
    """Parse and validate a file. Raises Problem 400, with the `line` if there is one."""
    return await (_read_yaml(body, schema) if media == YAML else _read_json(body, schema))


async def _read_json(body: bytes, schema: Record) -> tuple[dict[str, Any], Lines]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(400, "The file is not UTF-8.") from None
    reader = Reader(text)
    found: dict[str, Any] = {}
    try:
        await collect(reader.fields(schema, found))
    except NotJson as error:
        line = _line_of(text, reader.at)
        raise Problem(400, f"Line {line}: not valid JSON: {error.reason}.", line=line) from None
    except Invalid as error:
        starts = _starts_of(error.where, reader.starts)
        raise _invalid(error, None if starts is None else _line_of(text, starts)) from None
    lines = {name: await collect(_lines(text, starts)) for name, starts in reader.starts.items()}
    return found, lines


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _lines(text: str, starts: Iterable[int]) -> Iterator[int]:
    line, before = 1, 0
    for at in starts:
        line += text.count("\n", before, at)
        before = at
        yield line


def _starts_of(where: str, starts: Mapping[str, Sequence[int]]) -> int | None:
    """Return the position of the element that a JSON pointer leads into."""
    name, _, rest = where.removeprefix("/").partition("/")
    index = rest.partition("/")[0]
    known = starts.get(name, ())
    return known[int(index)] if index.isdecimal() and int(index) < len(known) else None


def _invalid(error: Invalid, line: int | None) -> Problem:
    text = f"Line {line}: {error}." if line else f"{error}."
    return Problem(400, text, where=error.where, line=line)


async def _read_yaml(body: bytes, schema: Record) -> tuple[dict[str, Any], Lines]:
    found: dict[str, Any] = {}
    lines: dict[str, list[int]] = {}
    problem = None
    nodes: list[list[Any]] = []
    try:
        place = await run_in_slices(compose_in_steps(body, _FILE, MAX_NODES))
        if isinstance(place.node, yaml.CollectionNode):
            nodes.append(place.node.value)
            if isinstance(place.node, yaml.MappingNode) and len(place.node.value) > MAX_FIELDS:
                place.refuse(f"expected only {', '.join(schema.fields)}")
        await run_in_slices(_read_fields(place.fields(), schema, found, lines))
    except BadFileError as error:
        problem = Problem(400, f"{error}.", line=error.line)
    except Problem as error:
        problem = error
    await run_in_slices(emptied(nodes))
    if problem is not None:
        await free_in_slices(found)
        raise problem.with_traceback(None)
    return found, lines


def _read_fields(
    fields: Fields, schema: Record, found: dict[str, Any], lines: dict[str, list[int]]
) -> Steps[None]:
    for name, place in fields.by_name.items():
        try:
            schema.check_name(name)
            kind = schema.fields[name]
            if not (isinstance(kind, Listing) and place.node.id == "sequence"):
                found[name] = kind.check(_value(place), f"/{name}")
                continue
        except Invalid as error:
            raise _invalid(error, _line(place)) from None
        found[name], lines[name] = [], []
        for item in _items(place):
            try:
                if len(found[name]) == kind.max_items:
                    kind.check_length(kind.max_items + 1, f"/{name}")
                value, where = _value(item), f"/{name}/{len(found[name])}"
                if kind.typed is not None:
                    value = kind.typed(value, where)
                found[name].append(kind.items.check(value, where))
            except Invalid as error:
                raise _invalid(error, _line(item)) from None
            lines[name].append(_line(item))
            yield
    try:
        for name in lines:
            kind = schema.fields[name]
            assert isinstance(kind, Listing)
            kind.check_length(len(found[name]), f"/{name}")
        schema.check_complete(found)
    except Invalid as error:
        raise _invalid(error, None) from None


def _items(place: YamlValue) -> Iterator[YamlValue]:
    """Yield the elements of a list, and remove each from the document when the next is taken, so that it is
    freed on the way. One that is refused stays there, and is freed with the rest.
    """
    nodes = place.node.value
    nodes.reverse()
    index = 0
    while nodes:
        yield replace(place, node=nodes[-1], path=f"{place.path}[{index}]")
        nodes.pop()
        index += 1


def _line(place: YamlValue) -> int:
    return int(place.node.start_mark.line) + 1


def _value(place: YamlValue) -> Any:
    """Return a value of bounded size. Raises BadFileError."""
    nodes, characters = [place.node], 0
    for node in nodes:
        if isinstance(node, yaml.ScalarNode):
            characters += len(node.value)
        elif len(nodes) + len(node.value) <= MAX_BRACKETS:
            nodes += [each for part in node.value for each in (part if isinstance(part, tuple) else (part,))]
        else:
            characters = LONGEST_PART + 1
        if len(nodes) > MAX_BRACKETS or characters > LONGEST_PART:
            place.refuse(f"expected at most {LONGEST_PART} characters and {MAX_BRACKETS} values")
    return place.json()


async def file_reply(name: str, key: str, entries: list[dict[str, Any]], *, form: str) -> Reply:
    """Return `{key: entries}` as a download that is called `name`. Empties the list."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    if form == "json":
        return Reply({key: entries}, headers=headers)
    parts = await collect(map(_yaml_entry, consumed(entries)))
    text = f"{key}:\n{''.join(parts)}" if parts else f"{key}: []\n"
    await free_in_slices(parts)
    return Reply(text.encode(), headers=headers, media=YAML)


def _yaml_entry(entry: Mapping[str, Any]) -> str:
    return str(yaml.dump([entry], Dumper=_DUMPER, sort_keys=False, allow_unicode=True))


def refused_import(
    outcomes: Sequence[EntryOutcome], refused: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]
) -> Problem:
    """Return the problem of an import: that of its first refused entry. `answer` becomes members of it."""
    first = next(outcome for outcome in outcomes if not outcome.ok)
    line = refused[0]["line"]
    detail = f"Line {line}: {first.message}" if line and first.message else first.message
    return Problem.of(first.error, detail, line=line, **answer)


async def version_of(changes: Iterable[Any]) -> int:
    """Return a version of these changes, for the ETag of a preview: others have another one."""
    digest = sha256()
    await collect(map(digest.update, map(encode, changes)))
    return int.from_bytes(digest.digest()[:6])
