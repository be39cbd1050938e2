"""The aborted transactions of a segment, in the format of Kafka's `.txnindex` (TransactionIndex, AbortedTxn).

Owned by a Segment, and written when an abort marker is. A Fetch of committed records sends the entries that
overlap its records, and the consumer skips their records. Recovery rebuilds the index from the markers.

    version i16 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64
"""

from struct import Struct
from typing import Final, NamedTuple

from broker.log import disk
from broker.log.disk import OpenFiles

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """Offsets of a transaction's first record and of its marker, and the last stable offset after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def entries_of(content: bytes) -> list[AbortedTransaction]:
    """Return the entries of the content of one or several indexes."""
    return [AbortedTransaction(*entry[1:]) for entry in _ENTRY.iter_unpack(content)]


class AbortedTransactions:
    """The entries of one segment, in the order of their markers: 34 bytes each, also in memory.

    The file has the first `stored_bytes` of them.
    """

    __slots__ = ("_entries", "_files", "path", "stored_bytes")

    def __init__(self, files: OpenFiles, path: str) -> None:
        """Create an empty index without touching the file."""
        self.path = path
        self._files = files
        self._entries = bytearray()
        self.stored_bytes = 0

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY.size

    def use(self, files: OpenFiles) -> None:
        """Open the file through these open files from now on."""
        self._files = files

    def content(self) -> bytes:
        """Return all entries, for `entries_of`."""
        return bytes(self._entries)

    def read(self) -> bool:
        """Read the file. Return False, and stay empty, if it is damaged. Raises OSError."""
        content = disk.read_file(self.path) or b""
        if len(content) % _ENTRY.size:
            return False
        last = -1
        for version, _, _, offset, _ in _ENTRY.iter_unpack(content):
            if version != _VERSION or offset <= last:
                return False
            last = offset
        self._entries = bytearray(content)
        self.stored_bytes = len(content)
        return True

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry whose marker is after those of all others."""
        self._entries += _ENTRY.pack(_VERSION, *entry)

    def spill(self) -> None:
        """Write the entries that the file lacks. Raises OSError; they are then written the next time."""
        if self.stored_bytes < len(self._entries):
            new = bytes(self._entries[self.stored_bytes :])
            disk.write_at(self._files.get(self.path, make=True), (new,), self.stored_bytes)
            self.stored_bytes += len(new)

    def clear(self) -> None:
        """Remove every entry, also from the file. Raises OSError."""
        self._entries = bytearray()
        self.stored_bytes = 0
        if disk.exists(self.path):
            disk.truncate(self._files.get(self.path), 0)

    def overlapping(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions with records from offset `start` to before `end`, and whether no later
        segment has more of them.
        """
        found: list[AbortedTransaction] = []
        entries = self._entries
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack_from(entries, middle * _ENTRY.size)[3] < start:
                low = middle + 1
            else:
                high = middle
        for at in range(low * _ENTRY.size, len(entries), _ENTRY.size):
            _, producer_id, first_offset, last_offset, stable = _ENTRY.unpack_from(entries, at)
            if first_offset < end:
                found.append(AbortedTransaction(producer_id, first_offset, last_offset, stable))
            if stable >= end:
                return found, True
        return found, False
