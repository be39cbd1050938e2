"""A run of a segment's bytes on its way to a reader, which no Python object ever holds.

Made by PartitionLog.read, measured (`len`) by the encoder of the Fetch response, sent by
network.connection.send. Knows no batch and no offset. Everything here belongs to the event loop's thread.
"""

from typing import Final

from broker.log import disk
from broker.log.disk import NOTHING, OpenFile, Sender
from broker.log.windows import Sendfile, Transfer


class FileSlice:
    """`len(slice)` and `remaining` are the bytes that are still to be sent; an empty one is false.

    The bytes stay readable as long as the slice exists, whatever happens to their segment.
    """

    __slots__ = ("_file", "_transfer", "position", "remaining")

    def __init__(self, file: OpenFile, position: int, length: int, transfer: Transfer) -> None:
        self._file = file
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
            self.position += sent
            self.remaining -= sent
            total += sent
        return total

    def piece(self) -> memoryview | None:
        """The first bytes that are left, to be sent together with others and dropped at once; None where only
        `send_to` will do. `advance` says afterwards how many went. Raises OSError.
        """
        return self._transfer.piece(self._file, self.position, self.remaining)

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

    def read(self) -> bytes:
        """What is left, copied; for TLS and for small answers. Sends nothing and moves nothing. Raises
        OSError.
        """
        return disk.read_at(self._file, self.position, self.remaining) if self.remaining else b""


EMPTY: Final = FileSlice(NOTHING, 0, 0, Sendfile())
"""What a read at the end of the log gives."""
