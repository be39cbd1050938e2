"""What a channel reads from and writes to: a socket of the system, or one with TLS above it. (Kafka:
TransportLayer)

A plain listener's channels hold the system's own non-blocking socket, so that nothing is between it and the
hot path; `network.tls.tls_socket` has the same methods.
"""

from collections.abc import Iterable
from typing import Protocol

Readable = bytes | bytearray | memoryview
Writable = bytearray | memoryview
Control = tuple[int, int, Readable]


class Transport(Protocol):
    """Nothing here waits: what cannot be done now raises BlockingIOError."""

    def recv_into(self, buffer: Writable, /) -> int:
        """Bytes read; 0 at the end of the stream."""

    def recv(self, size: int, flags: int, /) -> bytes:
        """With MSG_PEEK: what the kernel holds."""

    def send(self, data: Readable, /) -> int: ...

    def sendmsg(
        self, buffers: Iterable[Readable], ancillary: Iterable[Control] = ..., flags: int = ..., /
    ) -> int: ...

    def fileno(self) -> int:
        """Where the kernel may write what is sent, by itself; negative where it must pass through `send`."""

    def close(self) -> None: ...
