"""Decompression and compression of a batch that may take tens of milliseconds, so that a thread can run it.

Work on records yields these to its caller (broker.common.slices). Independent of tasks and clocks.
"""

from broker.records.compression import DEFAULT_LIMIT, compress, decompress
from broker.records.header import Buffer


class Unpack:
    """A decompression; `run` sets `data` to the result."""

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
    """A compression; `run` sets `data` to the result."""

    __slots__ = ("_codec", "_level", "_plain", "data")

    def __init__(self, codec: int, plain: Buffer, level: int | None) -> None:
        self._codec = codec
        self._level = level
        self._plain = plain
        self.data: Buffer = b""

    def run(self) -> None:
        """Compress; may run in any thread."""
        self.data = compress(self._codec, self._plain, self._level)
