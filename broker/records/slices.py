"""Work on records that is done in slices, so that other requests are served in between.

A `Slices` generator does a bounded amount of work between two of its yields. It yields None where it may be
left for a while, and an `Unpack` where a batch must be decompressed first: its caller runs that wherever it
wants, in a thread if need be, and then resumes the generator. Errors are raised by the generator; those of
`Unpack.run` are to be thrown into it. The generator is the whole state: closing it leaves nothing behind.

Used by `inspect`, the log and the handlers of Produce and ListOffsets. Knows no task and no clock.
"""

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

from broker.errors import ApiError
from broker.records.compression import DEFAULT_LIMIT, decompress
from broker.records.header import Buffer

Result = TypeVar("Result")

SLICE: Final = 512
"""Records, headers of records and headers of batches that are read between two yields; ours. One takes about
a microsecond, so a slice takes half a millisecond.
"""

AT_ONCE: Final = 256
"""Records of a batch that are read without a yield before them, so that a small batch costs no wait; ours."""


class Unpack:
    """A decompression that may take tens of milliseconds. `data` is what came out, after `run`."""

    __slots__ = ("_codec", "_limit", "_packed", "data")

    def __init__(self, codec: int, packed: Buffer, limit: int = DEFAULT_LIMIT) -> None:
        self._codec = codec
        self._packed = packed
        self._limit = limit
        self.data: Buffer = b""

    def run(self) -> None:
        """May run in any thread. Raises ApiError as `decompress`."""
        self.data = decompress(self._codec, self._packed, limit=self._limit)


Slices: TypeAlias = Generator[Unpack | None, None, Result]


def run_through(slices: Slices[Result]) -> Result:
    """Does everything at once, for callers that hold up no one else. Raises what the work raises."""
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
