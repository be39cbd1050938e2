"""What is still to be written of one response. (Kafka: NetworkSend, and the transferTo of records)

Called by `network.processor`. A response is a list of buffers and file regions; a region goes from the page
cache to the socket without passing through Python. Knows a region only by `remaining` and `send_to`, and
never the log behind it.
"""

import socket
from collections.abc import Sequence
from errno import EFAULT
from typing import TYPE_CHECKING, Final, Protocol

from broker.network.connection.transport import Transport

if TYPE_CHECKING:
    from broker.network.handling.request import Request

IOV_MAX: Final = 512
CALLS: Final = 64
"""System calls of one answer in one turn; ours. A fetch of many partitions has one for each slice of a log.
"""

Buffer = bytes | bytearray | memoryview


class FileRegion(Protocol):
    """Bytes of a file that are sent in place."""

    @property
    def remaining(self) -> int:
        """Bytes not yet sent."""

    def __len__(self) -> int:
        """The same."""

    def piece(self, used: int = 0) -> memoryview | None:
        """The first of them, to be sent together with other buffers and with `used` bytes of other pieces,
        and dropped before any region is asked for a piece with `used` 0; None: use `send_to`, or a call of
        its own if `used` is not 0. Never asked of a region without bytes. Raises UnreadableRegion.
        """

    def advance(self, sent: int) -> None:
        """So many bytes of the last piece were sent."""

    def send_to(self, sock: Transport) -> int:
        """Sends what the socket takes now and moves on by it; BlockingIOError if that is nothing. Raises
        UnreadableRegion.
        """

    def copies(self) -> None:
        """Its pieces are read by this process and not by the kernel: none may be of a mapping."""

    def failed(self, error: OSError) -> OSError:
        """The system call that was to send its piece has raised this: what to raise instead, UnreadableRegion
        or the same.
        """

    def is_readable(self) -> bool:
        """Whether its bytes can be read."""


Part = Buffer | FileRegion
BUFFERS: Final = (bytes, bytearray, memoryview)


def copy_regions(parts: list[Part]) -> None:
    """Has the regions of a response copied, for a transport that reads what it sends in this process."""
    for part in parts:
        if not isinstance(part, BUFFERS):
            part.copies()


def send_at_once(sock: Transport, parts: list[Part]) -> int:
    """One system call for a head, one file region and what is behind it: the bytes that went, or -1 where
    such a call cannot take all of them. BlockingIOError, OSError from the socket, UnreadableRegion.

    Nearly every response with records is like that; `Send` does the rest.
    """
    region = parts[1]
    if len(parts) > 3 or isinstance(region, BUFFERS):
        return -1
    piece = region.piece()
    if piece is None or len(piece) < region.remaining:
        return -1
    run = parts.copy()
    run[1] = piece
    try:
        return sock.sendmsg(run)  # type: ignore[arg-type]
    except OSError as error:
        if error.errno == EFAULT:
            raise region.failed(error) from error
        raise


class Send:
    """One response on its way out."""

    __slots__ = ("_at", "_parts", "request", "written")

    def __init__(self, parts: Sequence[Part], already: int = 0, request: "Request | None" = None) -> None:
        """`already` bytes of the first part, a buffer, have been written; `request` is what this answers."""
        self.request = request
        self._parts = list(parts)
        self._at = 0
        self.written = 0
        if already:
            self._advance(already)

    def write(self, sock: Transport) -> bool:
        """Writes until everything is gone (True), or the socket is full or has taken CALLS system calls
        (False). OSError when the peer is gone; UnreadableRegion when the disk fails.
        """
        parts = self._parts
        calls = CALLS
        try:
            while self._at < len(parts):
                if not calls:
                    return False
                calls -= 1
                run, is_all = self._gather()
                if run:
                    # The last bytes of a gathered run share a segment with what follows them.
                    self._advance(sock.sendmsg(run, (), 0 if is_all else socket.MSG_MORE))
                    continue
                region = parts[self._at]
                assert not isinstance(region, BUFFERS)
                self.written += region.send_to(sock)
                if not region.remaining:
                    self._at += 1
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == EFAULT:
                raise self._blame(error) from error
            raise
        return True

    @property
    def unsent(self) -> list[Part]:
        """The parts of a response of which nothing is written."""
        return self._parts

    def replace(self, parts: list[Part]) -> None:
        """Sends these instead. Only where nothing is written."""
        self._parts = parts

    def _blame(self, error: OSError) -> OSError:
        """A mapped page could not be read: it is one of the first region that is left."""
        for part in self._parts[self._at :]:
            if not isinstance(part, BUFFERS):
                return part.failed(error)
        return error

    def _gather(self) -> tuple[list[Buffer], bool]:
        """What one system call can take, with the pieces of as many regions as can be copied together, and
        whether that is all there is.
        """
        run: list[Buffer] = []
        parts = self._parts
        used = 0
        for part in parts[self._at : self._at + IOV_MAX]:
            if isinstance(part, BUFFERS):
                run.append(part)
                continue
            piece = part.piece(used)
            if piece is None:
                return run, False
            run.append(piece)
            if len(piece) < part.remaining:
                return run, False
            used += len(piece)
        return run, self._at + len(run) == len(parts)

    def _advance(self, sent: int) -> None:
        self.written += sent
        parts = self._parts
        while self._at < len(parts):
            part = parts[self._at]
            if isinstance(part, BUFFERS):
                size = len(part)
                if sent < size:
                    if sent:
                        parts[self._at] = memoryview(part)[sent:]
                    return
            else:
                size = part.remaining
                part.advance(min(sent, size))
                if sent < size:
                    return
            sent -= size
            self._at += 1


class Flight(Send):
    """What TLS itself has to say while nobody waits for a response: a part of the handshake."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def write(self, sock: Transport) -> bool:
        """Sends nothing new, and so what waits before it."""
        try:
            sock.send(b"")
        except BlockingIOError:
            return False
        return True
