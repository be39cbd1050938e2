"""Parses `server.properties` by Java's rules: comments, continued lines, separators `=` `:` or space,
escapes.

Called by broker.config.load. Follows java.util.Properties.load, except that files are UTF-8.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.errors import ConfigError

_BLANK: Final = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u(?P<hex>[0-9a-fA-F]{4})?|.)", re.DOTALL)
_SHORT: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """One assignment; `line` is its first line, counted from 1."""

    key: str
    value: str
    line: int


def parse(text: str) -> list[Property]:
    """Return all assignments in order; for repeated keys, the last one counts. Raises ConfigError for a bad
    `\\u` escape.
    """
    return [_split(line, number) for line, number in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    collected: str | None = None
    start = 0
    for number, natural in enumerate(_LINE_ENDS.split(text), 1):
        line = natural.lstrip(_BLANK)
        if collected is None:
            if not line or line[0] in "#!":
                continue
            collected, start = "", number
        if _is_continued(line):
            collected += line[:-1]
            continue
        yield collected + line, start
        collected = None
    if collected:
        yield collected, start


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str, number: int) -> Property:
    key = _KEY.match(line)
    separator = _SEPARATOR.match(line, key.end() if key else 0)
    if key is None or separator is None:  # Both match the empty string.
        raise AssertionError(line)
    return Property(_unescape(key[0], number), _unescape(line[separator.end() :], number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1][0] != "u":
            return _SHORT.get(match[1], match[1])
        if match["hex"] is None:
            raise ConfigError("\\u", text, "four hexadecimal digits after \\u", f"line {number}")
        return chr(int(match["hex"], 16))

    return _ESCAPE.sub(replace, text)
