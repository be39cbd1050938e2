"""The sparse indexes beside a segment: pairs of numbers in ascending order, in Kafka's file format.

Owned by a Segment; `offsets` maps the last offset of a batch to the batch's position (`.index`, 8 bytes an
entry), `times` maps the greatest timestamp so far to the offset that carries it (`.timeindex`, 12 bytes).
Offsets are relative to the segment. Knows nothing of batches.

An index can be made again from its segment, so entries are collected and written some hundreds at a time, and
what a closed segment knows is looked up in the file: a partition costs no memory for its indexes.
"""

from bisect import bisect_right
from operator import itemgetter
from struct import Struct
from typing import Final

from broker.log import disk
from broker.log.disk import OpenFiles

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")

_WRITTEN_TOGETHER: Final = 256
_first = itemgetter(0)


class SparseIndex:
    """A sequence of (key, value), found by the greatest key that is not above the one asked for."""

    __slots__ = ("_entry", "_files", "_fresh", "_stored", "last_key", "path")

    def __init__(self, files: OpenFiles, path: str, entry: Struct, *, stored: int = 0) -> None:
        """`stored`: entries that the file holds already."""
        self.path = path
        self._files = files
        self._entry = entry
        self._stored = stored
        self._fresh: list[tuple[int, int]] = []
        self.last_key = self[stored - 1][0] if stored else -1

    def __len__(self) -> int:
        return self._stored + len(self._fresh)

    def __getitem__(self, at: int) -> tuple[int, int]:
        """Raises IndexError at the end, so that it can be iterated over; OSError."""
        stored = self._stored
        if at >= stored:
            return self._fresh[at - stored]
        entry = self._entry
        piece = disk.read_at(self._files.get(self.path), at * entry.size, entry.size)
        key, value = entry.unpack(piece)
        return key, value

    @property
    def size(self) -> int:
        """Bytes, written or not."""
        return len(self) * self._entry.size

    def append(self, key: int, value: int) -> None:
        """`key` is greater than every key before."""
        self.last_key = key
        self._fresh.append((key, value))

    def at_or_before(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`."""
        fresh = self._fresh
        if fresh and fresh[0][0] <= key:
            return fresh[bisect_right(fresh, key, key=_first) - 1]
        found = bisect_right(self, key, hi=self._stored, key=_first)
        return self[found - 1] if found else None

    def spill(self, *, all_of_it: bool = False) -> None:
        """Writes collected entries when there are many. Raises OSError, and then keeps them."""
        fresh = self._fresh
        if not fresh or (len(fresh) < _WRITTEN_TOGETHER and not all_of_it):
            return
        pack = self._entry.pack
        written = b"".join([pack(*entry) for entry in fresh])
        disk.write_at(self._files.get(self.path), (written,), self._stored * self._entry.size)
        self._stored += len(fresh)
        self._fresh = []

    def clear(self) -> None:
        """Forgets every entry, also in the file."""
        disk.truncate(self._files.get(self.path), 0)
        self._stored = 0
        self._fresh = []
        self.last_key = -1
