"""The unsent part of one response. (Kafka: NetworkSend, and transferTo of records)

Called by `network.responder`. A response is a list of buffers and file regions; the bytes of a region are
sent from the page cache to the socket without a copy in Python. Independent of the log: uses the FileRegion
protocol.
"""

import socket
from collections.abc import Sequence
from errno import EFAULT
from typing import Final, Protocol

from broker.network.connection.transport import Transport

IOV_MAX: Final = 512
CALLS: Final = 64
"""System calls per response and turn; ours. A fetch of many partitions needs one for each slice of a log."""

MAX_AT_ONCE: Final = 64
"""Parts of a response that `send_at_once` sends; ours."""

TOGETHER_BYTES: Final = 131_072
"""Bytes up to which the regions of a response usually fit into one system call; more are not tried."""

Buffer = bytes | bytearray | memoryview


class FileRegion(Protocol):
    """A range of a file that is sent in place."""

    @property
    def remaining(self) -> int:
        """The number of bytes not yet sent."""

    def __len__(self) -> int:
        """Return `remaining`."""

    def piece(self, used: int = 0) -> memoryview | None:
        """Return the first unsent bytes, to send together with other buffers and `used` bytes of other
        pieces; drop them before calling `piece` of any region with `used` 0. Returns None if the caller must
        use `send_to`, or a separate call if `used` is not 0. The region must not be empty. Raises
        UnreadableRegion.
        """

    def advance(self, sent: int) -> None:
        """Mark `sent` bytes of the last piece as sent."""

    def send_to(self, sock: Transport) -> int:
        """Send as much as the socket takes and advance. Raises BlockingIOError if it takes nothing, and
        UnreadableRegion.
        """

    def copies(self) -> None:
        """Do not return pieces of a mapping: this process, not the kernel, reads the pieces."""

    def failed(self, error: OSError) -> OSError:
        """Return the exception to raise after a system call failed to send a piece: UnreadableRegion, or
        `error`.
        """

    def is_readable(self) -> bool:
        """Return whether the bytes can be read."""


Part = Buffer | FileRegion
BUFFERS: Final = (bytes, bytearray, memoryview)


def copy_regions(parts: list[Part]) -> None:
    """Copy the regions of a response, for a transport that reads what it sends in this process."""
    for part in parts:
        if not isinstance(part, BUFFERS):
            part.copies()


def send_at_once(sock: Transport, parts: list[Part], size: int) -> int:
    """Send a whole response of `size` bytes in one system call. Returns the bytes sent, or -1 if such a call
    cannot take all of them. Raises BlockingIOError, OSError from the socket, UnreadableRegion.

    Nearly all responses with records have this form; `Send` handles the others.
    """
    if len(parts) > MAX_AT_ONCE or (len(parts) > 3 and size > TOGETHER_BYTES):
        return -1
    run: list[Buffer] = []
    used = 0
    first: FileRegion | None = None
    for part in parts:
        if isinstance(part, BUFFERS):
            run.append(part)
            continue
        piece = part.piece(used)
        if piece is None or len(piece) < part.remaining:
            return -1
        used += len(piece)
        run.append(piece)
        first = first or part
    try:
        return sock.sendmsg(run)
    except OSError as error:
        if error.errno == EFAULT and first is not None:
            raise first.failed(error) from error
        raise


class Send:
    """One send in progress; see also `network.requests.request_channel.ResponseSend`."""

    __slots__ = ("_at", "_parts", "written")

    def __init__(self, parts: Sequence[Part], already: int = 0) -> None:
        """Send `parts`; `already` bytes of the first part, a buffer, have been written."""
        self._parts = list(parts)
        self._at = 0
        self.written = 0
        if already:
            self._advance(already)

    def write(self, sock: Transport) -> bool:
        """Write until everything is sent (True), or the socket is full or CALLS system calls are used
        (False). Raises OSError if the peer is gone, and UnreadableRegion if the disk fails.
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
                    # With MSG_MORE, the last bytes of the run share a segment with the bytes that follow.
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
                raise self._region_error(error) from error
            raise
        return True

    @property
    def unsent(self) -> list[Part]:
        """The parts of a response of which no byte has been written."""
        return self._parts

    def replace(self, parts: list[Part]) -> None:
        """Send these parts instead; valid only before any byte has been written."""
        self._parts = parts

    def _region_error(self, error: OSError) -> OSError:
        """Map EFAULT, a mapped page that cannot be read, to the error of the first remaining region."""
        for part in self._parts[self._at :]:
            if not isinstance(part, BUFFERS):
                return part.failed(error)
        return error

    def _gather(self) -> tuple[list[Buffer], bool]:
        """Return the buffers that one system call can take, including pieces of as many regions as fit, and
        whether they are all that remains.
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


class HandshakeSend(Send):
    """TLS handshake bytes, sent without a response."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def write(self, sock: Transport) -> bool:
        """Send the pending TLS bytes by writing nothing new."""
        try:
            sock.send(b"")
        except BlockingIOError:
            return False
        return True
