"""Patterns that clients and operators send: regular expressions, and names with wildcards. RE2 matches both,
with bounds on compiling and matching.

Used by broker.telemetry, .groups, .security, .api, .controller and .monitoring.alerts. RE2 matches in time
linear in the text, but this time also grows with the program, and RE2 compiles while it holds the
interpreter: `\\pL` 2,600 times took 360 ms. So an expression is weighed by its parts before it is compiled,
and a text that a long program would take long to match does not match. The module of RE2 is imported with the
first expression.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

MAX_COST: Final = 3_000
"""Microseconds, roughly, that compiling may take."""

_COSTS: Final = (("\\p", 400), ("\\P", 400), ("{", 130), ("[", 20), ("*", 8), ("+", 8), ("?", 8))
"""Microseconds that each occurrence adds to the time of compiling; a Unicode class has hundreds of ranges."""

_CHARACTERS_PER_COST: Final = 5

MAX_MEMORY: Final = 524_288
"""Bytes of a compiled expression including its matching; RE2's default is sixteen times that. An expression
that repeats its parts too often is given up here, after 4 ms at most.
"""

MAX_PROGRAM: Final = 4_096
"""Instructions of a compiled expression; a literal character is one."""

MAX_WORK: Final = 1_048_576
"""Instructions times characters of a text that is matched; 7 ns each at worst. A topic's name always fits."""

MAX_GLOB_WORK: Final = 262_144
"""Instructions times characters of one name: 2 ms at worst. A longer name does not match."""

SHORTEST: Final = 249
"""Characters of names that every pattern can match: those of a topic."""

_ANY: Final = "."
_NONE: Final = r"[^\x00-\x{10FFFF}]"


class Compiled(Protocol):
    """RE2's pattern, with the interface of Python's."""

    @property
    def groups(self) -> int: ...

    @property
    def programsize(self) -> int: ...

    def fullmatch(self, text: str) -> object | None: ...

    def finditer(self, text: str) -> Iterator[Any]: ...


class Pattern:
    """A compiled expression; hashable, equal only to itself."""

    __slots__ = ("_compiled", "longest")

    def __init__(self, text: str, max_work: int = MAX_WORK) -> None:
        """Raises ValueError with the reason."""
        self._compiled = compiled(text)
        self.longest = max_work // self._compiled.programsize
        """Characters of the longest text that can match."""

    def fullmatch(self, text: str) -> object | None:
        return self._compiled.fullmatch(text) if len(text) <= self.longest else None


def cost_of(text: str) -> int:
    """Return the time that compiling takes at most, in microseconds, if memory does not end it."""
    return len(text) // _CHARACTERS_PER_COST + sum(cost * text.count(part) for part, cost in _COSTS)


def compiled(text: str) -> Compiled:
    """Compile an expression. Raises ValueError with the reason."""
    import re2

    if cost_of(text) > MAX_COST:
        raise ValueError("too many classes, repetitions or characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        made = cast(Compiled, re2.compile(text, options))
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from error
    if made.programsize > MAX_PROGRAM:
        raise ValueError("pattern too large")
    return made


def glob(text: str) -> Pattern:
    """Compile a pattern of names with `*`, `?` and `[...]`, as Python's fnmatch reads it.

    Raises ValueError with the reason. fnmatch's own expressions are matched by Python's engine, which took
    64 ms for one name of 32,000 characters while it held the interpreter.
    """
    pattern = Pattern(expression(text), MAX_GLOB_WORK)
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
