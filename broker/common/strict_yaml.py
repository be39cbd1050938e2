"""Reads YAML files strictly; errors name the file, the line and the field.

Used by `weir quotas`, by broker.simulation and by the imports of the console. A plain value is YAML 1.2's
null, boolean or JSON number, or else a text as written: `yes`, `010`, `14:00` and `2026-01-01` are texts.
Refuses duplicate keys, other keys than texts, anchors and aliases, tags except `!!str`, several documents,
deep nesting and large files.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec
import yaml
from msgspec.structs import replace

from broker.common.slices import Steps, run_through

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 32
"""Levels of nested lists and mappings."""

MAX_DIGITS: Final = 4_300
"""Digits of a whole number, as Python reads them."""

T = TypeVar("T")

_TAG: Final = "tag:yaml.org,2002:"
_WHOLE: Final = r"-?(?:0|[1-9][0-9]*)"
_PLAIN_VALUES: Final = (
    ("null", r"~|null|Null|NULL|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", _WHOLE),
    ("float", rf"{_WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"),
)
"""The types of plain values and their patterns; all others are texts."""


class BadFileError(Exception):
    """A file of the user is invalid; the message names the file, the place and the reason. `line` is its line
    from 1, None if the reason is not in a line. `reason` is the message without file and line.
    """

    def __init__(self, message: str, line: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.reason = reason or message


_EVENTS: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""With libyaml's parser, composing takes a quarter of the time that it takes with PyYAML's own."""

_PLAIN_VALUE: Final = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PLAIN_VALUES))


def compose_in_steps(data: bytes, name: str, max_nodes: int | None = None) -> Steps["YamlValue"]:
    """Return the root of a document, which errors call `name`. Raises BadFileError, also if it has more than
    `max_nodes` values and names.
    """
    collections: list[tuple[yaml.Node, list[yaml.Node]]] = []
    try:
        node = yield from _composed(data, collections, max_nodes)
    except (yaml.YAMLError, ValueError) as error:
        yield from emptied([members for _, members in collections])
        raise _bad_file(data, name, error) from error
    if node is None:
        raise BadFileError(f"{name} is empty")
    return YamlValue(name, node)


def _bad_file(data: bytes, name: str, error: Exception) -> BadFileError:
    if isinstance(error, yaml.reader.ReaderError):
        at = data.count(b"\n", 0, error.position) + 1
        return BadFileError(f"{name} is not YAML: line {at}: {error.reason}", at)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        where = "" if line is None else f"line {line}: "
        why = ": ".join(each for each in (error.context, error.problem) if each)
        return BadFileError(f"{name} is not YAML: {where}{why}", line)
    return BadFileError(f"{name} is not YAML: {' '.join(str(error).split())}")


def emptied(lists: list[list[Any]]) -> Steps[None]:
    """Empty lists of nodes, and those in them, a few nodes at a time: freeing a document of 1 MB takes 30 ms
    if the last reference to it is dropped.
    """
    while lists:
        if not lists[-1]:
            lists.pop()
            continue
        member = lists[-1].pop()
        for node in member if isinstance(member, tuple) else (member,):
            if isinstance(node, yaml.CollectionNode):
                lists.append(node.value)
        yield


def _composed(
    data: bytes, collections: list[tuple[yaml.Node, list[yaml.Node]]], max_nodes: int | None
) -> Steps[yaml.Node | None]:
    """Return the root of the one document, None without any. Raises yaml.YAMLError and ValueError; then
    `collections` has the open lists and mappings with their members.
    """
    root: yaml.Node | None = None
    nodes = 0
    event: Any
    for event in yaml.parse(data, Loader=_EVENTS):
        yield
        mark: Any = event.start_mark
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise yaml.MarkedYAMLError(problem="found another document", problem_mark=mark)
        if isinstance(event, yaml.CollectionEndEvent):
            node, members = collections.pop()
            is_mapping = isinstance(node, yaml.MappingNode)
            node.value = (yield from _paired(members)) if is_mapping else members
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        nodes += 1
        if max_nodes is not None and nodes > max_nodes:
            problem = f"more than {max_nodes:,} values and names"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        node = _node_of(event, len(collections))
        if collections:
            collections[-1][1].append(node)
        else:
            root = node
        if not isinstance(node, yaml.ScalarNode):
            collections.append((node, []))
    return root


def _paired(members: list[yaml.Node]) -> Steps[list[tuple[yaml.Node, yaml.Node]]]:
    """Return the keys of a mapping with their values, and empty `members`: 1 MB has 110,000 keys, whose
    tuples take 40 ms.
    """
    pairs = []
    members.reverse()
    while members:
        pairs.append((members.pop(), members.pop()))
        yield
    return pairs


def _node_of(event: Any, depth: int) -> yaml.Node:
    tag, mark = getattr(event, "tag", None), event.start_mark
    reason = ""
    if event.anchor is not None:
        reason = "anchors and aliases are not supported"
    elif tag not in (None, f"{_TAG}str"):
        reason = f"the tag {tag} is not supported"
    elif depth >= MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
        reason = f"more than {MAX_DEPTH} nested lists and mappings"
    if reason:
        raise yaml.MarkedYAMLError(problem=reason, problem_mark=mark)
    if isinstance(event, yaml.SequenceStartEvent):
        return yaml.SequenceNode(f"{_TAG}seq", [], mark)
    if isinstance(event, yaml.MappingStartEvent):
        return yaml.MappingNode(f"{_TAG}map", [], mark)
    found = _PLAIN_VALUE.fullmatch(event.value) if tag is None and event.implicit[0] else None
    kind = "str" if found is None else found.lastgroup
    return yaml.ScalarNode(f"{_TAG}{kind}", event.value, mark)


def read_file(path: Path, name: str | None = None) -> "YamlValue":
    """Return the root of a file, which errors call `name`. Raises BadFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadFileError(f"{path} cannot be read: {error.strerror}") from error
    name = name or str(path)
    if len(data) > MAX_BYTES:
        raise BadFileError(f"{name} is larger than {MAX_BYTES} bytes")
    return run_through(compose_in_steps(data, name))


def write(document: Any) -> str:
    """Return YAML with the quotes that every YAML reader needs to read names as text."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


class YamlValue(msgspec.Struct, frozen=True):
    """One value of a file: `node` is PyYAML's node, `path` the field's name for people."""

    file: str
    node: Any
    path: str = ""

    def refuse(self, why: str) -> NoReturn:
        line = self.node.start_mark.line + 1
        reason = f"{self.path + ': ' if self.path else ''}{why}"
        raise BadFileError(f"{self.file} line {line}: {reason}", line, reason)

    def fields(self, *known: str) -> "Fields":
        """Return the value as a mapping with only these names, each at most once."""
        if self.node.id != "mapping":
            self.refuse("expected a mapping of names to values")
        found: dict[str, YamlValue] = {}
        for key, value in self.node.value:
            path = f"{self.path}.{key.value}" if self.path else str(key.value)
            name = replace(self, node=key, path=path)
            if name._type != "str":
                replace(self, node=key).refuse("found a key that is not a text")
            if known and key.value not in known:
                name.refuse(f"unknown; expected one of {', '.join(known)}")
            if key.value in found:
                name.refuse("is given twice")
            found[key.value] = replace(self, node=value, path=path)
        return Fields(self, found)

    def items(self) -> list["YamlValue"]:
        if self.node.id != "sequence":
            self.refuse("expected a list")
        return [
            replace(self, node=node, path=f"{self.path}[{index}]")
            for index, node in enumerate(self.node.value)
        ]

    @property
    def is_scalar(self) -> bool:
        return bool(self.node.id == "scalar")

    @property
    def is_null(self) -> bool:
        return self._type == "null"

    @property
    def _type(self) -> str:
        """Return null, bool, int, float, str, seq or map."""
        return str(self.node.tag).removeprefix(_TAG)

    def text(self) -> str:
        if not self.is_scalar or self.is_null:
            self.refuse("expected a text")
        return str(self.node.value)

    def whole(self, least: int, most: int) -> int:
        text = self.text()
        if not text.isdecimal() or len(text) > MAX_DIGITS or not least <= int(text) <= most:
            self.refuse(f"{text}: expected a whole number from {least} to {most}")
        return int(text)

    def json(self) -> Any:
        """Return the value as JSON's types."""
        match self._type:
            case "map":
                return {key: value.json() for key, value in self.fields().by_name.items()}
            case "seq":
                return [each.json() for each in self.items()]
            case "null":
                return None
            case "bool":
                return self.node.value.lower() == "true"
            case "int" | "float":
                return self._number()
        return self.node.value

    def _number(self) -> float:
        try:
            number = int(self.node.value) if self._type == "int" else float(self.node.value)
        except ValueError:  # int() limits the number of digits
            number = math.inf
        if math.isinf(number):
            self.refuse("the number is too large")
        return number


class Fields(msgspec.Struct, frozen=True):
    """The fields of a mapping, by name."""

    place: YamlValue
    by_name: dict[str, YamlValue]

    def get(self, name: str, read: Callable[[YamlValue], T], default: T) -> T:
        place = self.by_name.get(name)
        return default if place is None else read(place)

    def need(self, name: str) -> YamlValue:
        if name not in self.by_name:
            self.place.refuse(f"{name} is missing")
        return self.by_name[name]
