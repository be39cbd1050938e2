"""Patterns of names with `*`, `?` and `[...]`, as Python's fnmatch reads them, with bounds on matching.

Used by broker.monitoring.alerts and broker.controller. fnmatch's own expressions are matched by Python's
engine, which took 64 ms for one name of 32,000 characters while it held the interpreter. RE2 takes time
linear in the name.
"""

from typing import Final

from broker.common.patterns import Pattern

MAX_WORK: Final = 262_144
"""Instructions times characters of one name: 2 ms at worst. A longer name does not match."""

SHORTEST: Final = 249
"""Characters of names that every pattern can match: those of a topic."""

_ANY: Final = "."
_NONE: Final = r"[^\x00-\x{10FFFF}]"


def glob(text: str) -> Pattern:
    """Compile a pattern. Raises ValueError with the reason."""
    pattern = Pattern(expression(text), MAX_WORK)
    if pattern.longest < SHORTEST:
        raise ValueError("too many wildcards")
    return pattern


def expression(text: str) -> str:
    """Return RE2's expression for a pattern."""
    parts = ["(?s)"]
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "*":
            if parts[-1] != ".*":
                parts.append(".*")
        elif character == "?":
            parts.append(_ANY)
        elif character == "[" and (end := _end_of_class(text, at)) > 0:
            parts.append(_class(text[at:end]))
            at = end + 1
        else:
            parts.append(_literal(character))
    return "".join(parts)


def _end_of_class(text: str, begin: int) -> int:
    """Return where the class ends that begins there, -1 if it does not end. A `]` may be its first member."""
    first = begin + text.startswith("!", begin)
    return text.find("]", first + 1)


def _class(members: str) -> str:
    excludes = members.startswith("!")
    at = int(excludes)
    ranges = []
    while at < len(members):
        first = last = members[at]
        at += 1
        if members.startswith("-", at) and at + 1 < len(members):
            last = members[at + 1]
            at += 2
        if first <= last:
            ranges.append(f"{_literal(first)}-{_literal(last)}")
    if not ranges:
        return _ANY if excludes else _NONE
    return f"[{'^' if excludes else ''}{''.join(ranges)}]"


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{ord(character):02x}"
