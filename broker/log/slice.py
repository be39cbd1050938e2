"""A run of a segment's bytes on its way to a reader, which no Python object ever holds.

Made by PartitionLog.read, measured (`len`) by the encoder of the Fetch response, sent by
network.connection.send. Knows no batch and no offset. Everything here belongs to the event loop's thread.
"""

from errno import EBADMSG, EFAULT, EIO, ENODATA, ESTALE, EUCLEAN
from typing import Final, Protocol

from broker.errors import UnreadableRegion
from broker.log import disk
from broker.log.disk import NOTHING, OpenFile, Sender
from broker.log.windows import COPIED, IN_COPIES, MAPPED_FROM, Transfer

DISK_ERRORS: Final = frozenset({EBADMSG, EIO, ENODATA, ESTALE, EUCLEAN})
"""What sendfile reports of the file; no socket fails with one of these."""

READ_AHEAD: Final = 1_048_576
"""Bytes that are not in the page cache and are read at once, before a response promises them; the default of
max.partition.fetch.bytes.
"""

CHECKED_FROM: Final = MAPPED_FROM
"""A smaller slice is copied before the first byte of its response is sent, unless much stands before it."""

_SAMPLED: Final = 262_144
"""The kernel reads and evicts pages in runs, so one byte of each 256 KiB tells whether they are cached."""

_read_ahead: Final = memoryview(bytearray(COPIED))
"""Takes what is read only to know that it can be."""


class Lender(Protocol):
    """The log that a slice is of."""

    def slice_failed(self, error: OSError) -> None:
        """Some of the bytes could not be read. Raises nothing."""


class FileSlice:
    """`len(slice)` and `remaining` are the bytes that are still to be sent; an empty one is false. The lender
    is told where they cannot be read.

    The bytes stay readable as long as the slice exists, whatever happens to their segment.
    """

    __slots__ = ("_file", "_lender", "_transfer", "position", "remaining")

    def __init__(
        self, file: OpenFile, position: int, length: int, transfer: Transfer, lender: Lender | None = None
    ) -> None:
        self._file = file
        self._lender = lender
        self._transfer = transfer
        self.position = position
        self.remaining = length

    def __len__(self) -> int:
        return self.remaining

    def send_to(self, sender: Sender) -> int:
        """Sends as much as a non-blocking socket takes, and returns how much that was: 0 only if nothing is
        left.

        Raises BlockingIOError when the socket takes nothing; UnreadableRegion when the disk fails, OSError
        when the socket does. A part may have been sent before.
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
        """The first bytes that are left, to be sent together with others and dropped at once; None where only
        `send_to` will do. `used` bytes of other pieces stand before it in the same system call. `advance`
        says afterwards how many went. Raises UnreadableRegion.
        """
        try:
            return self._transfer.piece(self._file, self.position, self.remaining, used)
        except OSError as error:
            raise self._unreadable(error) from error

    def failed(self, error: OSError) -> OSError:
        """What to raise where sending a piece of it has failed: UnreadableRegion where the disk is to blame,
        be it for a page of a mapping, which the kernel calls a bad address; else the error itself.
        """
        if error.errno == EFAULT:
            return self._unreadable(OSError(EIO, f"bytes at {self.position} cannot be read"))
        return self._unreadable(error) if error.errno in DISK_ERRORS else error

    def is_readable(self) -> bool:
        """Whether the disk gives its bytes, as far as `check_readable` reads them. Where it does not, the
        lender is told.
        """
        try:
            self.check_readable(self.remaining)
        except OSError as error:
            self._unreadable(error)
            return False
        return True

    def _unreadable(self, error: OSError) -> UnreadableRegion:
        if self._lender is not None:
            self._lender.slice_failed(error)
        unreadable = UnreadableRegion(error.errno, error.strerror or str(error))
        unreadable.region = self
        return unreadable

    def advance(self, sent: int) -> None:
        """So many bytes of the last piece are gone."""
        self.position += sent
        self.remaining -= sent

    def is_cached(self) -> bool | None:
        """Whether its first and its last byte are in the page cache; None where the file system cannot
        tell.
        """
        if not self.remaining:
            return True
        first = disk.is_cached(self._file, self.position)
        return first and disk.is_cached(self._file, self.position + self.remaining - 1)

    def copies(self) -> None:
        """From now on its bytes are copied by read calls, since its sender reads them in this process: in a
        mapping, a page that cannot be read would kill the process.
        """
        self._transfer = IN_COPIES

    def check_readable(self, least: int) -> None:
        """Makes sure that the page cache has the bytes, so that an error of the disk is known before a
        response promises them.

        Where it does not, `READ_AHEAD` bytes are read, and the slice ends behind them, though not before its
        first `least` bytes: the reader asks for the others with its next request. Nothing is read where the
        file system cannot tell what is cached. Raises OSError; the lender is not told.
        """
        file, position = self._file, self.position
        end = position + self.remaining
        sample = cached = position
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

    def read(self) -> bytes:
        """What is left, copied; for TLS and for small answers. Sends nothing and moves nothing. Raises
        UnreadableRegion.
        """
        if not self.remaining:
            return b""
        try:
            return disk.read_at(self._file, self.position, self.remaining)
        except OSError as error:
            raise self._unreadable(error) from error


EMPTY: Final = FileSlice(NOTHING, 0, 0, IN_COPIES)
"""What a read at the end of the log gives."""
