"""Files in a request or a response: an object with lists, as JSON or YAML. Errors name the line.

Used by webui.http.app for the routes that import files, and by webui.rest.quota_files and
webui.rest.subscription_files. Files are parsed, validated and written in slices.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import yaml
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from broker.common.strict_yaml import BadFileError, Fields, YamlValue, compose_in_steps, emptied
from webui.problem import Problem
from webui.rest.bodies import LONGEST_PART, MAX_BRACKETS, NotJson, Reader
from webui.rest.routing import Query, RefusedEntry, Reply
from webui.schema import Invalid, Listing, Record, Text
from webui.tables.json_output import encode
from webui.tables.slices import collect, consumed, free_in_slices, run_in_slices, sort_in_slices

YAML: Final = "application/yaml"
FORMATS: Final = ("json", "yaml")
FORMAT: Final = Query("format", Text(choices=FORMATS), "The format of the file.", default="json")

PREVIEWED: Final = {
    "If-Match": "The ETag of the preview; 412 if the import would not make the same changes any more."
}

Lines = dict[str, list[int]]
"""The line, from 1, of each element of each list of a file."""

_FILE: Final = "The file"

MAX_NODES: Final = 200_000
"""Values and names of a YAML file: 10,000 rules have 150,000. A node takes 240 bytes."""

MAX_REFUSED: Final = 1_000
"""Refused elements after which a file is not read on."""

MAX_FIELDS: Final = 64
"""Fields of the object; more are refused before they are looked at."""

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class FileContent(NamedTuple):
    """A file without the elements that are not valid, which `refused` has."""

    fields: dict[str, Any]
    lines: Lines
    refused: list[RefusedEntry]


async def read_file(body: bytes, media: str, schema: Record) -> FileContent:
    """Parse and validate a file. Raises Problem 400, with the `line` if there is one, for what is not an
    element of a list, and for more than MAX_REFUSED refused elements.
    """
    return await (_read_yaml(body, schema) if media == YAML else _read_json(body, schema))


async def _read_json(body: bytes, schema: Record) -> FileContent:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(400, "The file is not UTF-8.") from None
    reader = Reader(text, MAX_REFUSED)
    found: dict[str, Any] = {}
    try:
        await collect(reader.fields(schema, found))
    except NotJson as error:
        line = _line_of(text, reader.at)
        raise Problem(400, f"Line {line}: not valid JSON: {error.reason}.", line=line) from None
    except Invalid as error:
        if reader.element is None:
            raise _invalid(error, None) from None
        reader.refused.append((reader.element, error))
        too_many = True
    else:
        too_many = False
    if too_many:
        raise _refused(await collect(_entries(text, reader.refused)))
    lines = {name: await collect(_lines(text, starts)) for name, starts in reader.starts.items()}
    return FileContent(found, lines, await collect(_entries(text, reader.refused)))


def _entries(text: str, refused: Sequence[tuple[int, Invalid]]) -> Iterator[RefusedEntry]:
    lines = _lines(text, (start for start, _ in refused))
    for line, (_, error) in zip(lines, refused, strict=True):
        yield RefusedEntry(line, str(error), error.where)


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _lines(text: str, starts: Iterable[int]) -> Iterator[int]:
    line, before = 1, 0
    for at in starts:
        line += text.count("\n", before, at)
        before = at
        yield line


def _invalid(error: Invalid, line: int | None) -> Problem:
    text = f"Line {line}: {error}." if line else f"{error}."
    return Problem(400, text, where=error.where, line=line)


def _refused(entries: Sequence[RefusedEntry]) -> Problem:
    return refused_import(list(map(refused_json, entries)), {}, entries[0].where)


async def _read_yaml(body: bytes, schema: Record) -> FileContent:
    content = FileContent({}, {}, [])
    problem = None
    nodes: list[list[Any]] = []
    try:
        place = await run_in_slices(compose_in_steps(body, _FILE, MAX_NODES))
        if isinstance(place.node, yaml.CollectionNode):
            nodes.append(place.node.value)
            if isinstance(place.node, yaml.MappingNode) and len(place.node.value) > MAX_FIELDS:
                place.refuse(f"expected only {', '.join(schema.fields)}")
        await run_in_slices(_read_fields(place.fields(), schema, content))
    except BadFileError as error:
        problem = Problem(400, f"{error}.", line=error.line)
    except Problem as error:
        problem = error
    await run_in_slices(emptied(nodes))
    if problem is not None:
        await free_in_slices(content.fields)
        raise problem.with_traceback(None)
    return content


def _read_fields(fields: Fields, schema: Record, content: FileContent) -> Steps[None]:
    for name, place in fields.by_name.items():
        try:
            schema.check_name(name)
            kind = schema.fields[name]
            if not (isinstance(kind, Listing) and place.node.id == "sequence"):
                content.fields[name] = kind.check(_value(place), f"/{name}")
                continue
        except Invalid as error:
            raise _invalid(error, _line(place)) from None
        yield from _read_list(name, place, kind, content)
    try:
        schema.check_complete(content.fields)
    except Invalid as error:
        raise _invalid(error, None) from None


def _read_list(name: str, place: YamlValue, kind: Listing, content: FileContent) -> Steps[None]:
    found: list[Any] = []
    lines: list[int] = []
    content.fields[name], content.lines[name] = found, lines
    count = 0
    for item in _items(place):
        line, where = _line(item), f"/{name}/{count}"
        if count == kind.max_items:
            _check_length(kind, count + 1, f"/{name}", line)
        try:
            value = _value(item)
            if kind.typed is not None:
                value = kind.typed(value, where)
            found.append(kind.items.check(value, where))
            lines.append(line)
        except Invalid as error:
            content.refused.append(RefusedEntry(line, str(error), error.where))
        except BadFileError as error:
            content.refused.append(RefusedEntry(error.line or line, error.reason, where))
        if len(content.refused) > MAX_REFUSED:
            raise _refused(content.refused)
        count += 1
        yield
    _check_length(kind, count, f"/{name}", None)


def _check_length(kind: Listing, length: int, where: str, line: int | None) -> None:
    """Raises Problem."""
    try:
        kind.check_length(length, where)
    except Invalid as error:
        raise _invalid(error, line) from None


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


def refused_json(entry: RefusedEntry) -> dict[str, Any]:
    return {"error": ErrorCode.INVALID_REQUEST.name, "message": entry.message, "line": entry.line}


async def by_line(refused: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort refused entries by their lines; those that are not in the file come last."""
    return await sort_in_slices(refused, lambda each: each["line"] or sys.maxsize)


def refused_import(
    refused: Sequence[Mapping[str, Any]], answer: Mapping[str, Any], where: str | None = None
) -> Problem:
    """Return the problem of an import: that of its first refused entry. It has all of them, and `answer`."""
    first = refused[0]
    line, message = first["line"], first["message"] or first["error"]
    detail = f"Line {line}: {message}" if line else message
    if len(refused) > 1:
        entries = "entry is" if len(refused) == 2 else "entries are"
        detail = f"{detail}; {len(refused) - 1} more {entries} refused"
    place = {} if where is None else {"where": where}
    members = {**answer, **place, "line": line, "refused": refused}
    return Problem.of(ErrorCode[first["error"]], detail, **members)


async def version_of(changes: Iterable[Any]) -> int:
    """Return a version of these changes, for the ETag of a preview: others have another one."""
    digest = sha256()
    await collect(map(digest.update, map(encode, changes)))
    return int.from_bytes(digest.digest()[:6])
