"""Parses `server.properties` by the rules of java.util.Properties.load, with line numbers.

Called by broker.config.load, which decodes files as UTF-8 where Java's loader expects Latin-1.
"""

import re
from dataclasses import dataclass
from typing import Final

from broker.errors import ConfigError

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


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
    import javaproperties  # a start without a file does not need it

    found: list[Property] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                found.append(Property(element.key, element.value, line))
            line += len(_LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as error:
        allowed = "four hexadecimal digits after \\u"
        raise ConfigError("\\u", error.escape, allowed, f"line {line}") from error
    return found
