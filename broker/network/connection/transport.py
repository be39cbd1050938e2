"""The transport of a channel: a plain socket, or TLS over a socket. (Kafka: TransportLayer)

Channels of a plain listener use the non-blocking socket itself, which keeps the hot path short;
`network.connection.tls_socket` has the same methods.
"""

from collections.abc import Iterable
from typing import Protocol

Readable = bytes | bytearray | memoryview
Writable = bytearray | memoryview
Control = tuple[int, int, Readable]


class Transport(Protocol):
    """A non-blocking transport: an operation that would block raises BlockingIOError."""

    def recv_into(self, buffer: Writable, /) -> int:
        """Read into `buffer`. Returns the number of bytes, or 0 at the end of the stream."""

    def recv(self, size: int, flags: int, /) -> bytes:
        """Read; with MSG_PEEK, return bytes that the kernel holds without removing them."""

    def send(self, data: Readable, /) -> int: ...

    def sendmsg(
        self, buffers: Iterable[Readable], ancillary: Iterable[Control] = ..., flags: int = ..., /
    ) -> int: ...

    def fileno(self) -> int:
        """Return the descriptor for sendfile, or a negative number if all data must pass through `send`."""

    def close(self) -> None: ...
