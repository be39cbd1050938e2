"""Sparse indexes of a segment: pairs of numbers in ascending order, in Kafka's file format.

Owned by a Segment; `offsets` maps the last offset of a batch to the batch's position (`.index`, 8 bytes an
entry), `times` maps the greatest timestamp so far to the offset that has it (`.timeindex`, 12 bytes). Offsets
are relative to the segment. Independent of batches.

An index can be rebuilt from its segment, so entries are buffered and written some hundreds at a time. Written
entries are looked up in the file, so an index uses no memory; only the most recently used offset indexes are
cached as numbers, because consumers read the same segments again and again. `IndexRecord` notices damage.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.log import disk
from broker.log.disk import OpenFiles

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")

ENTRIES_PER_WRITE: Final = 256
_first = itemgetter(0)

_RECORD_VERSION: Final = "0"

MAX_RELATIVE_OFFSET: Final = 0x7FFF_FFFF
"""Largest distance of an offset from its segment's base offset: the indexes store it in four bytes."""

RESIDENT_ENTRIES: Final = 1_048_576
"""Offset index entries cached in memory, over all segments: 8 MB, enough for 4 GB of small batches."""


class Resident:
    """LRU cache of offset indexes, each as an array of keys and one of values."""

    def __init__(self, most: int = RESIDENT_ENTRIES) -> None:
        self._most = most
        self._held: OrderedDict[SparseIndex, tuple[array[int], array[int]]] = OrderedDict()
        self.entries = 0

    def get(self, index: "SparseIndex") -> tuple["array[int]", "array[int]"]:
        """Return the index's arrays, read from the file on a miss. Raises OSError."""
        found = self._held.get(index)
        if found is not None:
            self._held.move_to_end(index)
            return found
        pairs = array("i", index.read_stored())
        if sys.byteorder == "little":
            pairs.byteswap()
        found = (pairs[0::2], pairs[1::2])
        if not pairs:
            return found
        self.entries += len(found[0])
        self._held[index] = found
        while self.entries > self._most and len(self._held) > 1:
            _, (keys, _values) = self._held.popitem(last=False)
            self.entries -= len(keys)
        return found

    def extend(self, index: "SparseIndex", entries: list[tuple[int, int]]) -> None:
        """Add entries that were appended to the index file."""
        found = self._held.get(index)
        if found is not None:
            found[0].extend([key for key, _ in entries])
            found[1].extend([value for _, value in entries])
            self.entries += len(entries)

    def forget(self, index: "SparseIndex") -> None:
        """Remove a deleted or changed index."""
        found = self._held.pop(index, None)
        if found is not None:
            self.entries -= len(found[0])


_resident = Resident()


class SparseIndex:
    """A sequence of (key, value), searched for the greatest key that is not above the given one.

    Every method may raise OSError.
    """

    __slots__ = ("_entry", "_files", "_last_key", "_stored", "_unwritten", "path")

    def __init__(self, files: OpenFiles, path: str, entry: Struct, *, fresh: bool) -> None:
        """Create the index without touching the file. `fresh`: ignore the file's content."""
        self.path = path
        self._files = files
        self._entry = entry
        self._stored = 0 if fresh else -1
        self._last_key: int | None = -1 if fresh else None
        self._unwritten: list[tuple[int, int]] = []

    def use(self, files: OpenFiles) -> None:
        """Open the file through these open files from now on."""
        self._files = files

    def __len__(self) -> int:
        if self._stored < 0:
            self._stored = disk.size_of(self.path) // self._entry.size
        return self._stored + len(self._unwritten)

    def __getitem__(self, at: int) -> tuple[int, int]:
        """Return the entry at `at`, which is from 0 to below the length."""
        stored = self._stored
        if at >= stored:
            return self._unwritten[at - stored]
        entry = self._entry
        key, value = entry.unpack(disk.read_at(self._files.get(self.path), at * entry.size, entry.size))
        return key, value

    def last_two(self) -> list[tuple[int, int]]:
        """Return the last two stored entries, or what there is, with one read."""
        stored = len(self) - len(self._unwritten)
        count, entry = min(stored, 2), self._entry
        if not count:
            return []
        read = disk.read_at(self._files.get(self.path), (stored - count) * entry.size, count * entry.size)
        return [(key, value) for key, value in entry.iter_unpack(read)]

    @property
    def size(self) -> int:
        """Bytes, including unwritten entries."""
        return len(self) * self._entry.size

    def last_key(self) -> int:
        """Return the greatest key, or -1 if empty."""
        if self._last_key is None:
            count = len(self)
            self._last_key = self[count - 1][0] if count else -1
        return self._last_key

    def append(self, key: int, value: int) -> None:
        """Add an entry; `key` is greater than every earlier key."""
        self._last_key = key
        self._unwritten.append((key, value))

    def count_to(self, key: int) -> int:
        """Return the number of entries whose key is not above `key`."""
        return bisect_right(range(len(self)), key, key=lambda at: self[at][0])

    def first_from(self, value: int) -> tuple[int, int] | None:
        """Return the first entry whose value is not below `value`; the values ascend too."""
        found = bisect_left(range(len(self)), value, key=lambda at: self[at][1])
        return self[found] if found < len(self) else None

    def around(self, key: int) -> tuple[int, int | None]:
        """Return the value of the last entry below `key` (0 if none) and of the first one at or above it."""
        unwritten = self._unwritten
        keys, values = _resident.get(self)
        stored = len(keys)
        if not stored or key > keys[-1]:
            at = bisect_left(unwritten, key, key=_first)
            before = unwritten[at - 1][1] if at else (values[-1] if stored else 0)
            return before, unwritten[at][1] if at < len(unwritten) else None
        at = bisect_left(keys, key)
        return values[at - 1] if at else 0, values[at]

    def read_stored(self) -> bytes:
        """Return the file's content."""
        size = self.stored_bytes
        return disk.read_at(self._files.get(self.path), 0, size) if size else b""

    @property
    def stored_bytes(self) -> int:
        """Bytes in the file."""
        return (len(self) - len(self._unwritten)) * self._entry.size

    @property
    def unwritten(self) -> int:
        """Number of buffered entries."""
        return len(self._unwritten)

    def spill(self) -> None:
        """Write the buffered entries. A failure keeps them."""
        unwritten = self._unwritten
        if unwritten:
            pack, stored = self._entry.pack, len(self) - len(unwritten)
            written = b"".join([pack(*entry) for entry in unwritten])
            disk.write_at(self._files.get(self.path, make=True), (written,), stored * self._entry.size)
            self._stored = stored + len(unwritten)
            self._unwritten = []
            _resident.extend(self, unwritten)

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Put other entries in the place of all."""
        self.clear()
        self._unwritten = entries
        self._last_key = entries[-1][0] if entries else -1
        self.spill()

    def evict(self) -> None:
        """Drop the cached entries of a deleted segment."""
        _resident.forget(self)

    def clear(self) -> None:
        """Remove every entry, also from the file."""
        disk.truncate(self._files.get(self.path, make=True), 0)
        self._stored = 0
        self._unwritten = []
        self._last_key = -1
        _resident.forget(self)


class IndexRecord(NamedTuple):
    """A record of the indexes of a closed segment, so that a later start notices a damaged or missing one.

    It has the size of the time index in bytes, the number of aborted transactions, and the checksum of their
    index.

    The segment writes the file beside its indexes when it is sealed; Kafka's formats have no room for a
    checksum. Most segments need none: the last entry of a time index is checked against its batch, and a
    segment without aborted transactions has no `.txnindex`. Indexes of earlier versions are accepted without
    one.

        0
        timeindex <bytes>
        txnindex <entries> <crc32c>
    """

    time_bytes: int
    aborted: int
    aborted_crc: int


def record_of(time_bytes: int, aborted: int, content: bytes | bytearray) -> IndexRecord:
    """Return the record of a time index of this size and of this content of a `.txnindex`."""
    return IndexRecord(time_bytes, aborted, crc32c(content))


def record_text(record: IndexRecord) -> bytes:
    lines = [
        _RECORD_VERSION,
        f"timeindex {record.time_bytes}",
        f"txnindex {record.aborted} {record.aborted_crc}",
    ]
    return ("\n".join(lines) + "\n").encode()


def parse_record(content: bytes | None) -> IndexRecord | None:
    """Return the record; None for a missing file.

    A damaged file agrees with no index, so that the indexes are rebuilt.
    """
    if content is None:
        return None
    try:
        version, times, aborted = content.decode("ascii").splitlines()
        time_name, time_bytes = times.split(" ")
        aborted_name, count, crc = aborted.split(" ")
        if (version, time_name, aborted_name) == (_RECORD_VERSION, "timeindex", "txnindex"):
            return IndexRecord(int(time_bytes), int(count), int(crc))
    except ValueError:
        pass
    return IndexRecord(-1, -1, -1)
