"""A range of a segment's bytes on its way to a reader, and two ways to send it from the page cache to a
socket: sendfile and mapped windows.

A FileSlice is created by PartitionLog.read, measured (`len`) by the encoder of the Fetch response, sent by
network.connection.send without copying into Python objects. Independent of batches and offsets. Used only
from the event loop's thread. `log.transfer` selects the way:

sendfile copies nothing: the socket refers to the pages. It needs a send buffer with which the receiver keeps
up (`network.acceptor.acceptor`); with one of megabytes, mappings are faster. Only the kernel may read a
mapping: for a page that the disk cannot read, or one beyond the end of a truncated file, the kernel's system
call fails with EFAULT, while a process that reads such a page itself is killed by SIGBUS. TLS encrypts in the
process, so `FileSlice.copies` makes its slices use read calls.
"""

import contextlib
import mmap
from collections import OrderedDict
from errno import EBADMSG, EFAULT, EIO, ENODATA, ESTALE, EUCLEAN
from typing import Final, Protocol

from broker.common.errors import UnreadableRegion
from broker.log import disk
from broker.log.disk import NO_FILE, OpenFile, Sender

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


DISK_ERRORS: Final = frozenset({EBADMSG, EIO, ENODATA, ESTALE, EUCLEAN})
"""Errors that sendfile reports for the file; no socket operation fails with one of these."""

READ_AHEAD: Final = 1_048_576
"""Uncached bytes read at once before a response promises them; the default of max.partition.fetch.bytes."""

MAX_UNCHECKED_BYTES: Final = MAX_UNMAPPED_BYTES
"""Slices up to this size are copied before the first byte of their response is sent, unless many bytes
precede them.
"""

_SAMPLED: Final = 262_144
"""The kernel reads and evicts pages in runs, so one byte per 256 KiB shows whether they are cached."""

_read_ahead: Final = memoryview(bytearray(MAX_COPIED_BYTES))
"""Buffer for bytes that are read only to check that they are readable."""


class SliceOwner(Protocol):
    """The log that owns a slice."""

    def slice_failed(self, error: OSError) -> None:
        """Handle bytes that could not be read. Never raises."""


class FileSlice:
    """Bytes of a segment file.

    Reports read errors to its owner.

    `len(slice)` and `remaining` are the unsent bytes; an empty slice is false. The bytes stay readable as
    long as the slice exists, even if the segment is deleted.
    """

    __slots__ = ("_file", "_owner", "_transfer", "position", "remaining")

    def __init__(
        self, file: OpenFile, position: int, length: int, transfer: Transfer, owner: SliceOwner | None = None
    ) -> None:
        self._file = file
        self._owner = owner
        self._transfer = transfer
        self.position = position
        self.remaining = length

    def __len__(self) -> int:
        return self.remaining

    def send_to(self, sender: Sender) -> int:
        """Send as much as a non-blocking socket accepts and return the bytes sent; 0 only if nothing remains.

        Raises BlockingIOError when the socket's buffer is full; UnreadableRegion when the disk fails, OSError
        when the socket does. Part of the slice may have been sent before.
        """
        total = 0
        while self.remaining:
            try:
                sent = self._transfer.send(sender, self._file, self.position, self.remaining)
            except BlockingIOError:
                if total:
                    return total
                raise
            except OSError as error:
                failure = self.failed(error)
                if failure is error:
                    raise
                raise failure from error
            self.position += sent
            self.remaining -= sent
            total += sent
        return total

    def piece(self, used: int = 0) -> memoryview | None:
        """Return the first unsent bytes, to be sent with others; None if only `send_to` works.

        `used` is the number of bytes of earlier pieces in the same system call. The caller drops the view at
        once and reports the bytes sent to `advance`. Raises UnreadableRegion.
        """
        try:
            return self._transfer.piece(self._file, self.position, self.remaining, used)
        except OSError as error:
            raise self._unreadable(error) from error

    def failed(self, error: OSError) -> OSError:
        """Return the error to raise after sending a piece failed.

        UnreadableRegion for a disk error, else `error`. The kernel reports an unreadable page of a mapping as
        a bad address (EFAULT).
        """
        if error.errno == EFAULT:
            return self._unreadable(OSError(EIO, f"bytes at {self.position} cannot be read"))
        return self._unreadable(error) if error.errno in DISK_ERRORS else error

    def is_readable(self) -> bool:
        """Return whether the bytes are readable, as far as `check_readable` reads them.

        Reports a failure to the owner.
        """
        try:
            self.check_readable(self.remaining)
        except OSError as error:
            self._unreadable(error)
            return False
        return True

    def _unreadable(self, error: OSError) -> UnreadableRegion:
        if self._owner is not None:
            self._owner.slice_failed(error)
        return UnreadableRegion(error.errno, error.strerror or str(error), self)

    def advance(self, sent: int) -> None:
        """Skip the bytes sent from the last piece."""
        self.position += sent
        self.remaining -= sent

    def is_cached(self) -> bool | None:
        """Return whether the first and the last byte are cached; None if the file system does not say."""
        if not self.remaining:
            return True
        first = disk.is_cached(self._file, self.position)
        return first and disk.is_cached(self._file, self.position + self.remaining - 1)

    def copies(self) -> None:
        """Copy the bytes by read calls from now on.

        Required if the sender reads them in this process: an unreadable page of a mapping would kill it.
        """
        self._transfer = BY_COPY

    def check_readable(self, least: int) -> None:
        """Bring the bytes into the page cache, so that a disk error is known before a response promises them.

        Reads `READ_AHEAD` uncached bytes and shortens the slice to end after them, but not within its first
        `least` bytes: the reader requests the others next. Reads nothing if the file system does not report
        what is cached. Raises OSError without reporting it to the owner.
        """
        file, position = self._file, self.position
        end = position + self.remaining
        # The kernel reads a small slice in one run.
        sample = position if self.remaining > MAX_UNCHECKED_BYTES else end - 1
        cached = position
        while disk.is_cached(file, sample) is not False:
            if sample == end - 1:
                return
            cached, sample = sample, min(sample + _SAMPLED, end - 1)
        wanted = max(cached + READ_AHEAD, position + least)
        if wanted < end:
            self.remaining = wanted - position
            end = wanted
        while cached < end:
            piece = _read_ahead[: end - cached]
            disk.read_into(file, piece, cached)
            cached += len(piece)

    def part(self, start: int, end: int) -> "FileSlice":
        """Return the bytes from `start` to before `end`, counted from the first unsent one."""
        return FileSlice(self._file, self.position + start, end - start, self._transfer, self._owner)

    def read(self) -> bytes:
        """Return a copy of the unsent bytes, for TLS and small responses.

        Does not advance. Raises UnreadableRegion.
        """
        if not self.remaining:
            return b""
        try:
            return disk.read_at(self._file, self.position, self.remaining)
        except OSError as error:
            raise self._unreadable(error) from error


EMPTY: Final = FileSlice(NO_FILE, 0, 0, BY_COPY)
"""The result of a read at the end of the log."""
