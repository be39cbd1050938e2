"""Regular expressions of subscriptions, matched in time linear in the text.

Used by `subscription`. A pattern comes from an operator and its text from any client, so a backtracking
engine (Java's and Python's are) would allow either to block the broker. RE2 does not backtrack, and refuses
lookaround and backreferences. Its module is loaded with the first pattern, in three milliseconds.
"""

from typing import Final, Protocol

MAX_MEMORY: Final = 1_048_576
"""Maximum bytes of a compiled pattern including its matching; ours. RE2's default is eight times that."""


class Pattern(Protocol):
    """A compiled pattern; hashable, equal only to itself."""

    def fullmatch(self, text: str) -> object | None: ...


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern. Raises ValueError with the reason."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from error
    return compiled
