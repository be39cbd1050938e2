"""The receiving half of a TLS connection. (Kafka: Selector.keysWithBufferedRead)

Wraps the listener's plain receiving half. One read from the kernel can bring many records, and one record
many frames, which epoll does not report: `has_buffered` does.
"""

from broker.network.connection.receive import Frame, Receive
from broker.network.connection.transport import Transport
from broker.network.tls.tls_socket import TlsSocket


class TlsReceive:
    """A `Receive` whose socket is `tls`."""

    __slots__ = ("_receive", "_tls")

    def __init__(self, receive: Receive, tls: TlsSocket) -> None:
        self._receive = receive
        self._tls = tls

    @property
    def limit(self) -> int:
        return self._receive.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._receive.limit = limit

    @property
    def has_buffered(self) -> bool:
        return self._receive.has_buffered or self._tls.has_buffered

    @property
    def waits_for_memory(self) -> bool:
        return self._receive.waits_for_memory

    def read(self, sock: Transport) -> Frame | None:
        """Read as `Receive.read` does, until there is a frame or no decrypted or buffered bytes remain."""
        receive, tls = self._receive, self._tls
        frame = receive.read(sock)
        while frame is None and tls.has_buffered and not receive.waits_for_memory:
            frame = receive.read(sock)
        return frame

    def next_buffered(self) -> Frame | None:
        frame = self._receive.next_buffered()
        return self.read(self._tls) if frame is None and self._tls.has_buffered else frame

    def close(self) -> None:
        self._receive.close()
