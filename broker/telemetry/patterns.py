"""Regular expressions of subscriptions, matched in time that grows with the text and with nothing else.

Used by `subscription`. A pattern comes from an operator and its text from any client, so an engine that goes
back over its own steps (Java's and Python's do) would let one of the two stop the broker. RE2 does not; what
it cannot do so, looking around and referring back, it refuses. Its module is loaded with the first pattern,
in three milliseconds.
"""

from typing import Final, Protocol

MOST_MEMORY: Final = 1_048_576
"""Bytes that a pattern may take up compiled, its matching included; ours. RE2's own is eight times that."""


class Pattern(Protocol):
    """A compiled pattern; hashable, and equal to nobody but itself."""

    def fullmatch(self, text: str) -> object | None: ...


def compile_pattern(text: str) -> Pattern:
    """Raises ValueError, with what is wrong in words."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from error
    return compiled
