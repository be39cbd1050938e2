"""How fetched records get from the page cache to a socket: by mapped windows, or by sendfile.

A FileSlice sends through the one of the two that `log.transfer` names. Knows files, positions and sockets; no
record.

Sending from a mapping takes half the time of sendfile for large slices, because the kernel copies into large
socket buffers instead of lending single pages. It has a price: a page that the disk cannot read kills the
process by SIGBUS, and so does a page beyond the end of a file that was truncated; the log never truncates
below an end that a reader has seen.
"""

import mmap
from collections import OrderedDict
from errno import EIO
from typing import Final, Protocol

from broker.log import disk
from broker.log.disk import OpenFile, Sender

WINDOW_BYTES: Final = 4 * 1_048_576
"""A multiple of the page size. Large enough that mapping is rare, small enough that many readers fit."""

_SMALL: Final = 262_144
"""Below this both ways cost about the same, and sendfile needs no mapping: many readers at many places would
map and unmap for each answer.
"""


class Transfer(Protocol):
    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        """Bytes sent, at least 1. Raises BlockingIOError when the socket takes nothing now, OSError."""

    def close(self) -> None: ...


class Sendfile:
    """sendfile(2): an unreadable page is an error of this call, and nothing is mapped."""

    __slots__ = ()

    def send(self, sender: Sender, file: OpenFile, position: int, length: int) -> int:
        return disk.send_file(sender, file, position, length)

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
        if length < _SMALL:
            return disk.send_file(sender, file, position, length)
        number = position // WINDOW_BYTES
        start = position - number * WINDOW_BYTES
        end = start + length
        if end > WINDOW_BYTES:
            end = WINDOW_BYTES
        found = self._windows.get((file.serial, number))
        if found is not None and len(found[1]) >= end:
            self._windows.move_to_end((file.serial, number))
        else:
            found = self._map(file, number, end)
        piece = found[1][start:end]
        try:
            return sender.send(piece)
        finally:
            piece.release()

    def _map(self, file: OpenFile, number: int, end: int) -> tuple[mmap.mmap, memoryview]:
        """A window at the growing end of a file is mapped anew, further, when a slice goes beyond it."""
        key = (file.serial, number)
        shorter = self._windows.pop(key, None)
        if shorter is not None:
            _unmap(shorter)
        while len(self._windows) >= self._most:
            _unmap(self._windows.popitem(last=False)[1])
        mapping = disk.map_window(file, number * WINDOW_BYTES, WINDOW_BYTES)
        if len(mapping) < end:
            mapping.close()
            raise OSError(EIO, "a segment is shorter than its log")
        found = self._windows[key] = (mapping, memoryview(mapping))
        return found

    def close(self) -> None:
        while self._windows:
            _unmap(self._windows.popitem()[1])


def _unmap(window: tuple[mmap.mmap, memoryview]) -> None:
    mapping, view = window
    view.release()
    mapping.close()
