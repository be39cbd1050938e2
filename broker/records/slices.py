"""Work on records in slices, with other requests in between.

A `Slices` generator does a bounded amount of work between two yields. It yields None where the caller may
pause it, and an `Unpack` or a `Pack` where a batch must be decompressed or compressed first: the caller runs
that, in a thread if necessary, and resumes the generator. The generator raises its own errors; the caller
throws the errors of `run` into it. The generator is the whole state: closing it leaves nothing behind.

Used by `inspect`, the log and the handlers of Produce and ListOffsets. Independent of tasks and clocks.
"""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

from broker.common.errors import ApiError
from broker.records.compression import DEFAULT_LIMIT, compress, decompress
from broker.records.header import Buffer

Result = TypeVar("Result")

SLICE: Final = 512
"""Records, record headers and batch headers read between two yields; our own limit.

Each takes about a microsecond, so a slice takes half a millisecond.
"""

AT_ONCE: Final = 256
"""Records of a batch that are read before the first yield, so that a small batch never waits; ours."""


class Unpack:
    """A decompression that may take tens of milliseconds; `run` sets `data` to the result."""

    __slots__ = ("_codec", "_limit", "_packed", "data")

    def __init__(self, codec: int, packed: Buffer, limit: int = DEFAULT_LIMIT) -> None:
        self._codec = codec
        self._packed = packed
        self._limit = limit
        self.data: Buffer = b""

    def run(self) -> None:
        """Decompress; may run in any thread. Raises ApiError as `decompress`."""
        self.data = decompress(self._codec, self._packed, limit=self._limit)


class Pack:
    """A compression that may take tens of milliseconds; `run` sets `data` to the result."""

    __slots__ = ("_codec", "_level", "_plain", "data")

    def __init__(self, codec: int, plain: Buffer, level: int | None) -> None:
        self._codec = codec
        self._plain = plain
        self._level = level
        self.data: Buffer = b""

    def run(self) -> None:
        """Compress; may run in any thread."""
        self.data = compress(self._codec, self._plain, self._level)


ThreadWork: TypeAlias = Unpack | Pack

Slices: TypeAlias = Generator[ThreadWork | None, None, Result]


def run_through(slices: Slices[Result]) -> Result:
    """Run all slices at once, for callers that block no other requests. Raises the errors of the work."""
    try:
        step = next(slices)
        while True:
            if step is None:
                step = next(slices)
                continue
            try:
                step.run()
            except ApiError as error:
                step = slices.throw(error)
            else:
                step = next(slices)
    except StopIteration as end:
        result: Result = end.value
        return result
