"""Python source in the making: lines, indentation, and the names that the code will see.

Base of the compilers: compile_decode, compile_encode and error_codes. A function can be made in two forms:
straight-line, or as a generator that yields None after at most SLICE array elements, for large messages.
Knows nothing of versions or fields.
"""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

SLICE: Final = 512
"""Array elements between two yields of a generator; ours. An element takes 0.3 to 3 microseconds."""

NUMBERS: Final = 4096
"""Numbers of an array between two yields; ours. One takes some 30 ns."""


class Emitter:
    """Collects the lines of one function and turns them into that function. `in_slices` asks for the form
    that is a generator.
    """

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
        """Emits `line` and indents what follows."""
        self.emit(line)
        self._indent += 1
        yield
        self._indent -= 1

    def constant(self, prefix: str, value: object) -> str:
        """A name under which the function finds `value`; the same name for the same object."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def build(self) -> Any:
        """The function `run` that the lines define. Its source shows in tracebacks under `<name>`."""
        source = "\n".join(self._lines) + "\n"
        file_name = f"<{self.name}>"
        linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
        exec(compile(source, file_name, "exec"), self.names)  # noqa: S102 - every word of it is from our own schema
        return self.names["run"]


@cache
def layout(letters: str) -> tuple[int, Callable[..., Any], Callable[..., bytes]]:
    """Size, unpack_from and pack of a big-endian run of fields, the same objects for the same letters."""
    made = struct.Struct(">" + letters)
    return made.size, made.unpack_from, made.pack
