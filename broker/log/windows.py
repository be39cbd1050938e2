"""How fetched records get from the page cache to a socket: by mapped windows, or by sendfile.

A FileSlice sends through the one of the two that `log.transfer` names. Knows files, positions and sockets; no
record.

Sending from a mapping takes half the time of sendfile for large slices, because the kernel copies into large
socket buffers instead of lending single pages. Only the kernel may read a mapping: for a page that the disk
cannot read, or that is beyond the end of a file that somebody else has truncated, its system call fails with
EFAULT, while a process that reads such a page itself is killed by SIGBUS. TLS encrypts in the process, so its
slices are copied by read calls (`FileSlice.copies`).
"""

import contextlib
import mmap
from collections import OrderedDict
from typing import Final, Protocol

from broker.log import disk
from broker.log.disk import OpenFile, Sender

WINDOW_BYTES: Final = 16 * 1_048_576
"""A multiple of the page size. Pages are mapped when they are touched, so a large window costs no more than
what is read of it, and fewer system calls.
"""

MAPPED_FROM: Final = 65_536
"""Bytes of a slice below which no mapping is looked for."""

_LARGE: Final = 262_144
"""From this on a mapping pays even if it serves a single slice. Slices between the two are sent from a window
that is there, and make none: many readers at many places would map and unmap for every answer.
"""


COPIED: Final = 131_072
"""Up to here a slice is read into memory and leaves in one system call with what stands before and behind it:
that costs a copy, and saves two calls and two wake-ups of the reader, which are dearer.
"""

_copied: Final = memoryview(bytearray(COPIED))
"""One for all, since pieces are sent before others are made; a fresh one would be faulted in each time."""


class Transfer(Protocol):
    def piece(self, file: OpenFile, position: int, length: int, used: int = 0) -> memoryview | None:
        """A view of the first of these bytes, at least 1; None where `send` is the only way. Raises OSError.

        Pieces that are sent in one system call have `COPIED` bytes together, and `used` is what the pieces
        before this one have; None where the rest is too small. All of them are to be dropped before a piece
        is asked for with `used` 0.
        """

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        """Bytes sent, at least 1. Raises BlockingIOError when the socket takes nothing now, OSError."""

    def close(self) -> None: ...


class Sendfile:
    """sendfile(2): an unreadable page is an error of this call, and nothing is mapped."""

    __slots__ = ()

    def piece(self, file: OpenFile, position: int, length: int, used: int = 0) -> memoryview | None:
        return _copy(file, position, length, used) if used + length <= COPIED else None

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        return _send_file(sender, file, position, length)

    def close(self) -> None:
        return


class MappedWindows:
    """Windows of files, mapped when they are first sent from; the longest unused one is unmapped for the
    next.

    No view of a window outlives a call, so a window can be closed at any time between two calls.
    """

    __slots__ = ("_most", "_windows")

    def __init__(self, max_bytes: int) -> None:
        self._most = max(max_bytes // WINDOW_BYTES, 1)
        self._windows: OrderedDict[tuple[int, int], tuple[mmap.mmap, memoryview]] = OrderedDict()

    @property
    def mapped_bytes(self) -> int:
        return sum(len(mapping) for mapping, _ in self._windows.values())

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        piece = self.piece(file, position, length)
        if piece is None:
            return _send_file(sender, file, position, length)
        try:
            return sender.send(piece)
        finally:
            piece.release()

    def piece(self, file: OpenFile, position: int, length: int, used: int = 0) -> memoryview | None:
        if used or length < MAPPED_FROM:
            # The pieces of one call are read before the first of them is sent, which a mapping is not.
            return _copy(file, position, length, used) if used + length <= COPIED else None
        number = position // WINDOW_BYTES
        start = position - number * WINDOW_BYTES
        end = min(start + length, WINDOW_BYTES)
        key = (file.serial, number)
        found = self._windows.get(key)
        if found is not None and len(found[1]) >= end:
            self._windows.move_to_end(key)
        elif length >= _LARGE:
            found = self._map(file, key, end)
        else:
            return _copy(file, position, length) if length <= COPIED else None
        return found[1][start:end]

    def _map(self, file: OpenFile, key: tuple[int, int], end: int) -> tuple[mmap.mmap, memoryview]:
        """As much of a window as there is, which is at least `end`."""
        shorter = self._windows.pop(key, None)
        if shorter is not None:
            _unmap(shorter)
        while len(self._windows) >= self._most:
            _unmap(self._windows.popitem(last=False)[1])
        mapping = disk.map_window(file, key[1] * WINDOW_BYTES, WINDOW_BYTES)
        if len(mapping) < end:
            mapping.close()
            raise disk.too_short()
        found = self._windows[key] = (mapping, memoryview(mapping))
        return found

    def close(self) -> None:
        while self._windows:
            _unmap(self._windows.popitem()[1])


IN_COPIES: Final[Transfer] = Sendfile()
"""For readers in this process: no mapping; a sender without a descriptor is given copies."""


def _send_file(sender: Sender, file: OpenFile, position: int, length: int) -> int:
    if sender.fileno() < 0:  # TLS: the kernel does not have what is to be sent
        return sender.send(_copy(file, position, min(length, COPIED)))
    return disk.send_file(sender, file, position, length)


def _copy(file: OpenFile, position: int, length: int, used: int = 0) -> memoryview:
    piece = _copied[used : used + length]
    disk.read_into(file, piece, position)
    return piece


def _unmap(window: tuple[mmap.mmap, memoryview]) -> None:
    mapping, view = window
    # A piece that somebody still holds, say in the traceback of a failed send, keeps the mapping alive.
    with contextlib.suppress(BufferError):
        view.release()
        mapping.close()
