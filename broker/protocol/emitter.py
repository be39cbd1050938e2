"""Generates Python source: lines, indentation, and the names available to the code.

Base of the compilers compile_decode, compile_encode and error_codes. A function can be compiled in two forms:
straight-line, or, for large messages, as a generator that yields None after at most SLICE array elements.
Independent of versions and fields.
"""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

SLICE: Final = 512
"""Array elements between two yields of a generator; our own limit. An element takes 0.3 to 3 microseconds."""

NUMBERS: Final = 4096
"""Numbers of an array between two yields; our own limit. One takes about 30 ns."""


class Emitter:
    """Collects the lines of one function and compiles them; `in_slices` selects the generator form."""

    def __init__(self, name: str, in_slices: bool = False) -> None:
        self.name = f"{name} in slices" if in_slices else name
        self.in_slices = in_slices
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = 0

    def emit(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Emit `line` and indent the lines that follow."""
        self.emit(line)
        self._indent += 1
        yield
        self._indent -= 1

    def constant(self, prefix: str, value: object) -> str:
        """Return the name under which the function finds `value`; one name for one object."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def build(self) -> Any:
        """Compile the function `run` that the lines define. Its source shows in tracebacks under `<name>`."""
        source = "\n".join(self._lines) + "\n"
        file_name = f"<{self.name}>"
        linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
        exec(compile(source, file_name, "exec"), self.names)  # noqa: S102 - every word of it is from our own schema
        return self.names["run"]


@cache
def layout(letters: str) -> tuple[int, Callable[..., Any], Callable[..., bytes]]:
    """Return size, unpack_from and pack of a big-endian run of fields; cached by `letters`."""
    made = struct.Struct(">" + letters)
    return made.size, made.unpack_from, made.pack
