"""What is still to be written of one response. (Kafka: NetworkSend, and the transferTo of records)

Called by `network.processor`. A response is a list of buffers and file regions; a region goes from the page
cache to the socket without passing through Python. Knows a region only by `remaining` and `send_to`, and
never the log behind it.
"""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from broker.network.request import Request

IOV_MAX: Final = 512
Buffer = bytes | bytearray | memoryview


class FileRegion(Protocol):
    """Bytes of a file that are sent in place."""

    @property
    def remaining(self) -> int:
        """Bytes not yet sent."""

    def send_to(self, sock: socket.socket) -> int:
        """Sends what the socket takes now and moves on by it; BlockingIOError if that is nothing."""


Part = Buffer | FileRegion


class Send:
    """One response on its way out."""

    __slots__ = ("_at", "_parts", "request", "written")

    def __init__(self, parts: Sequence[Part], already: int = 0, request: "Request | None" = None) -> None:
        """`already` bytes of the first part, a buffer, have been written; `request` is what this answers."""
        self.request = request
        self._parts = list(parts)
        self._at = 0
        self.written = already
        if already:
            first = self._parts[0]
            assert isinstance(first, bytes | bytearray | memoryview)
            self._parts[0] = memoryview(first)[already:]

    def write(self, sock: socket.socket) -> bool:
        """Writes until everything is gone (True) or the socket is full (False). OSError when the peer is
        gone.
        """
        parts = self._parts
        try:
            while self._at < len(parts):
                part = parts[self._at]
                if isinstance(part, bytes | bytearray | memoryview):
                    self._write_buffers(sock)
                else:
                    while part.remaining:
                        self.written += part.send_to(sock)
                    self._at += 1
        except BlockingIOError:
            return False
        return True

    def _write_buffers(self, sock: socket.socket) -> None:
        parts, start = self._parts, self._at
        run: list[Buffer] = []
        flags = 0
        for part in parts[start : start + IOV_MAX]:
            if not isinstance(part, bytes | bytearray | memoryview):
                flags = socket.MSG_MORE  # the head of a response shares a segment with the records behind it
                break
            run.append(part)
        n = sock.sendmsg(run, (), flags)
        self.written += n
        for part in run:
            size = len(part)
            if n < size:
                parts[self._at] = memoryview(part)[n:]
                return
            n -= size
            self._at += 1
