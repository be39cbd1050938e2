"""Two ways to send fetched records from the page cache to a socket: sendfile and mapped windows.

`log.transfer` selects the implementation that a FileSlice uses. Works on files, positions and sockets, not on
records.

sendfile copies nothing: the socket refers to the pages. It needs a send buffer with which the receiver keeps
up (`network.acceptor.acceptor`); with one of megabytes, mappings are faster. Only the kernel may read a
mapping: for a page that the disk cannot read, or one beyond the end of a truncated file, the kernel's system
call fails with EFAULT, while a process that reads such a page itself is killed by SIGBUS. TLS encrypts in the
process, so `FileSlice.copies` makes its slices use read calls.
"""

import contextlib
import mmap
from collections import OrderedDict
from typing import Final, Protocol

from broker.log import disk
from broker.log.disk import OpenFile, Sender

WINDOW_BYTES: Final = 16 * 1_048_576
"""Bytes per window, a multiple of the page size.

The kernel maps pages on first access, so a large window costs no more than the bytes read, and it needs fewer
system calls.
"""

MAX_UNMAPPED_BYTES: Final = 65_536
"""Slices up to this many bytes never use a mapping."""

_LARGE: Final = 262_144
"""Slices of at least this many bytes create a mapping, because it pays off even for a single slice.

Slices between MAX_UNMAPPED_BYTES and this size use an existing window but create none: many readers at many
positions would map and unmap for every response.
"""


MAX_COPIED_BYTES: Final = 131_072
"""Slices up to this many bytes are copied into memory and sent in one system call with their neighbours.

The copy costs less than the two system calls and two reader wake-ups that it saves.
"""

_copied: Final = memoryview(bytearray(MAX_COPIED_BYTES))
"""Shared by all slices, because pieces are sent before new ones are read.

A fresh buffer would page-fault each time.
"""


class Transfer(Protocol):
    def piece(self, file: OpenFile, position: int, length: int, used: int = 0) -> memoryview | None:
        """Return a view of the first bytes, at least 1; None if only `send` can send them.

        Raises OSError.

        Pieces sent in one system call share `MAX_COPIED_BYTES`; `used` is the number of bytes that earlier
        pieces take. Returns None if the rest is too small. The caller drops all pieces before it calls with
        `used` 0 again.
        """

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        """Send at least 1 byte and return the number sent.

        Raises BlockingIOError when the socket's buffer is full, OSError.
        """

    def close(self) -> None: ...


class Sendfile:
    """sendfile(2): reports an unreadable page as an error of the call and maps nothing."""

    def piece(self, file: OpenFile, position: int, length: int, used: int = 0) -> memoryview | None:
        return _copy(file, position, length, used) if used + length <= MAX_COPIED_BYTES else None

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        return _send_file(sender, file, position, length)

    def close(self) -> None:
        return


class MappedWindows:
    """Mapped windows of files, created on first use; the least recently used window is unmapped first.

    No view of a window outlives a call, so a window can be closed between any two calls.
    """

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
        if used or length <= MAX_UNMAPPED_BYTES:
            # All pieces of one call are read before the first is sent; a mapping is only read during the
            # send.
            return _copy(file, position, length, used) if used + length <= MAX_COPIED_BYTES else None
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
            return _copy(file, position, length) if length <= MAX_COPIED_BYTES else None
        return found[1][start:end]

    def _map(self, file: OpenFile, key: tuple[int, int], end: int) -> tuple[mmap.mmap, memoryview]:
        """Map as much of the window as the file has, at least up to `end`."""
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


BY_COPY: Final[Transfer] = Sendfile()
"""For readers in this process: maps nothing; a sender without a descriptor gets copies."""


def _send_file(sender: Sender, file: OpenFile, position: int, length: int) -> int:
    if sender.fileno() < 0:  # TLS: the kernel has no plaintext to send
        return sender.send(_copy(file, position, min(length, MAX_COPIED_BYTES)))
    return disk.send_file(sender, file, position, length)


def _copy(file: OpenFile, position: int, length: int, used: int = 0) -> memoryview:
    piece = _copied[used : used + length]
    disk.read_into(file, piece, position)
    return piece


def _unmap(window: tuple[mmap.mmap, memoryview]) -> None:
    mapping, view = window
    # A piece that is still referenced, e.g. from the traceback of a failed send, keeps the mapping alive.
    with contextlib.suppress(BufferError):
        view.release()
        mapping.close()
