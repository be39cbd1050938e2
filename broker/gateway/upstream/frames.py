"""Whole frames over a transport, for code that waits. (Kafka: NetworkSend, NetworkReceive)

Used by the login and by the gateway's own requests. Clients' frames go through broker.network's reactor.
"""

from typing import Any, Final

import trio

from broker.common.errors import ProtocolViolation
from broker.common.slice_runner import run_slices
from broker.config.listeners import Address
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.network.connection.receive import SIZE, EndOfStream, invalid_size
from broker.network.connection.tls_socket import TlsError
from broker.network.connection.transport import Readable, Transport
from broker.protocol import codec
from broker.protocol.dismantle import dismantle
from broker.protocol.schema import Buffer

CHUNK_BYTES: Final = 16 * 1024
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""The gateway's own requests ask for a few megabytes at most."""

READS: Final = 64
"""Chunks that are read of one frame before other tasks run; ours. A megabyte takes 0.3 ms."""

DECODED_AT_ONCE: Final = 16 * 1024
"""Bytes of a response that is decoded with nothing else in between; ours. ApiVersions has a kilobyte."""

TLS_ALERT: Final = b"\x15\x03"
"""The bytes that a TLS listener sends to a client without TLS. As a size they are far above the limit."""


FAILURES: Final = (OSError, EndOfStream, ProtocolViolation)
"""How an open connection fails."""


def as_upstream_error(address: Address, error: Exception) -> UpstreamError:
    """Return what one of FAILURES means."""
    match error:
        case TlsError():
            return UpstreamError(Reason.TLS, f"{address}: {error}")
        case EndOfStream():
            return UpstreamError(Reason.CLOSED, f"{address}: closed by the broker")
        case OSError():
            return UpstreamError(Reason.CLOSED, f"{address}: {error.strerror or error}")
    return UpstreamError(Reason.PROTOCOL, f"{address}: {error}")


class FrameStream:
    """Frames in both directions. `sock` does not block, and `fd` is its descriptor for epoll.

    Do not call `send` in two tasks at once. A cancelled `send` can leave half a frame behind: close the
    connection. A cancelled `receive` loses nothing. Both raise OSError from the socket.
    """

    def __init__(self, sock: Transport, fd: int, limit: int = MAX_FRAME_BYTES) -> None:
        self._sock = sock
        self._fd = fd
        self._limit = limit
        self._buffer = bytearray()
        self._chunk = memoryview(bytearray(CHUNK_BYTES))

    @property
    def has_buffered(self) -> bool:
        """Whether bytes of a later frame were read."""
        return bool(self._buffer)

    async def send(self, frame: Readable) -> None:
        """Send a frame with its size prefix."""
        unsent = memoryview(frame)
        while unsent:
            try:
                unsent = unsent[self._sock.send(unsent) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
            else:
                if unsent:
                    await trio.lowlevel.wait_writable(self._fd)

    async def receive(self) -> bytearray:
        """Return the next frame without its size prefix. Lets other tasks run between parts of a large one.

        Raises EndOfStream, also in the middle of a frame, and ProtocolViolation for a size outside 0..limit.
        """
        await trio.lowlevel.checkpoint()
        reads = 0
        while (frame := self._next()) is None:
            reads += 1
            if reads % READS == 0:
                await trio.lowlevel.checkpoint()
            try:
                count = self._sock.recv_into(self._chunk)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._fd)
                continue
            if not count:
                raise EndOfStream("closed by the peer")
            self._buffer += self._chunk[:count]
        return frame

    def _next(self) -> bytearray | None:
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        (size,) = SIZE.unpack_from(buffer)
        if buffer.startswith(TLS_ALERT):
            raise ProtocolViolation("the broker speaks TLS; see upstream.security.protocol")
        if not 0 <= size <= self._limit:
            raise invalid_size(size, self._limit)
        end = 4 + size
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]  # at most a chunk, while a frame may have megabytes
        del buffer[end:], buffer[:4]
        return buffer


async def decoded(frame: Buffer, body: int, key: int, version: int) -> Any:
    """Return the message of a response whose body begins at `body`; other tasks run meanwhile if it is large.
    Raises ProtocolViolation.
    """
    if len(frame) <= DECODED_AT_ONCE:
        return codec.decode_response(key, version)(frame, body)
    try:
        return await run_slices(codec.decode_response_in_slices(key, version)(frame, body))
    except ProtocolViolation as violation:
        found = violation
    await run_slices(dismantle(found.take_partial()))
    raise found
