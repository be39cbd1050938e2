"""A run of a segment's bytes on its way to a reader, which no Python object ever holds.

Made by PartitionLog.read, measured (`len`) by the encoder of the Fetch response, sent by
network.connection.send. Knows no batch and no offset. Everything here belongs to the event loop's thread.
"""

from errno import EBADMSG, EFAULT, EIO, ENODATA, ESTALE, EUCLEAN
from typing import Final, Protocol

from broker.log import disk
from broker.log.disk import NOTHING, OpenFile, Sender
from broker.log.windows import COPIED, IN_COPIES, Transfer

DISK_ERRORS: Final = frozenset({EBADMSG, EIO, ENODATA, ESTALE, EUCLEAN})
"""What sendfile reports of the file; no socket fails with one of these."""

READ_AHEAD: Final = 1_048_576
"""Bytes of a slice that are read before a response promises it; the default of max.partition.fetch.bytes."""

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

        Raises BlockingIOError when the socket takes nothing; OSError when the socket or the disk fails, where
        the connection must be closed because a part may have been sent.
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
                self.failed(error)
                raise
            self.position += sent
            self.remaining -= sent
            total += sent
        return total

    def piece(self) -> memoryview | None:
        """The first bytes that are left, to be sent together with others and dropped at once; None where only
        `send_to` will do. `advance` says afterwards how many went. Raises OSError.
        """
        try:
            return self._transfer.piece(self._file, self.position, self.remaining)
        except OSError as error:
            self._tell(error)
            raise

    def failed(self, error: OSError) -> None:
        """Sending a piece of it failed: by the disk if a page of its mapping could not be read, which the
        kernel calls a bad address, else by the socket.
        """
        if error.errno == EFAULT:
            self._tell(OSError(EIO, f"bytes at {self.position} cannot be read"))
        elif error.errno in DISK_ERRORS:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if self._lender is not None:
            self._lender.slice_failed(error)

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

    def check_readable(self) -> None:
        """Reads what the page cache does not have, up to `READ_AHEAD` bytes, so that an error of the disk is
        known before a response promises these bytes. The first of them have just been read, to find their
        batch. Nothing is read where the file system cannot tell what is cached. Raises OSError.
        """
        file, position = self._file, self.position
        end = position + min(self.remaining, READ_AHEAD)
        sample = position
        while sample < end - 1:
            sample = min(sample + _SAMPLED, end - 1)
            if disk.is_cached(file, sample) is False:
                break
        else:
            return
        while position < end:
            piece = _read_ahead[: end - position]
            disk.read_into(file, piece, position)
            position += len(piece)

    def read(self) -> bytes:
        """What is left, copied; for TLS and for small answers. Sends nothing and moves nothing. Raises
        OSError.
        """
        if not self.remaining:
            return b""
        try:
            return disk.read_at(self._file, self.position, self.remaining)
        except OSError as error:
            self._tell(error)
            raise


EMPTY: Final = FileSlice(NOTHING, 0, 0, IN_COPIES)
"""What a read at the end of the log gives."""
