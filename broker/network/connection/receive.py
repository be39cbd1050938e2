"""Reads size-delimited frames from a byte stream. (Kafka: NetworkReceive, and KafkaChannel.read)

Called by `network.processor` when a socket is readable. Reads the four-byte size prefix and is independent of
a frame's content, except that the body of a Produce request (API key 0) must be writable, because the log
patches offsets in place.

One read takes what the kernel has, up to the size of the scratch buffer: most requests arrive whole and cost
one system call. Bytes after the first frame are kept until the channel is unmuted (one completed receive per
channel at a time). A frame larger than the scratch buffer gets its own buffer, and its remaining bytes are
received into it without another copy. If request memory is bounded, `network.leased_receive` replaces
this class.

Epoll does not report bytes that are already read: `has_buffered` does, and the processor calls
`next_buffered` when the connection may be read again.
"""

import struct
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.network.connection.frame_pool import Buffer, FramePool
from broker.network.connection.transport import Transport

SIZE: Final = struct.Struct(">i")
SCRATCH_BYTES: Final = 64 * 1024

MAX_AT_ONCE: Final = 1024 * 1024
"""Bytes of a large frame to read at once; ours. The kernel may hold several megabytes, and a megabyte takes
0.3 ms, mostly to fault in new memory.
"""

Frame = bytes | bytearray | memoryview
"""A small frame is its own object; a large one is a view of a pooled buffer; `FramePool.release` gives it
back.
"""


INVALID_RECEIVE: Final = "Invalid receive"


def invalid_size(size: int, limit: int) -> ProtocolViolation:
    """Return an error with Kafka's message."""
    larger = "" if size < 0 else f" larger than {limit}"
    return ProtocolViolation(f"{INVALID_RECEIVE} (size = {size}{larger})")


class EndOfStream(Exception):  # noqa: N818 - the end of a connection is not an error
    """The peer closed its side."""


class Receive:
    """The receiving half of one connection.

    `limit` is the largest frame accepted now (`socket.request.max.bytes`, or less before authentication).
    `scratch` is shared by all connections of a processor and is only valid within one call.
    """

    __slots__ = ("_filled", "_frame", "_pool", "_rest", "_scratch", "_wanted", "limit")

    def __init__(self, limit: int, scratch: memoryview, pool: FramePool) -> None:
        self.limit = limit
        self._scratch = scratch
        self._pool = pool
        self._rest: bytes | memoryview = b""
        self._frame: Buffer | None = None
        self._filled = 0
        self._wanted = 0

    @property
    def has_buffered(self) -> bool:
        """Whether bytes were read that belong to no frame yet, which epoll does not report."""
        return bool(self._rest)

    @property
    def waits_for_memory(self) -> bool:
        """Whether a received or announced request waits for request memory."""
        return False

    @property
    def has_memory(self) -> bool:
        """Whether request memory is reserved for a request that has not been received whole."""
        return False

    def read(self, sock: Transport) -> Frame | None:
        """Read once. Returns the next complete frame without its size prefix, or None.

        Raises EndOfStream, ProtocolViolation for a size outside 0..limit, and OSError from the socket.
        """
        if self._frame is not None:
            return self._continue(sock)
        scratch = self._scratch
        rest = self._rest
        if rest:
            return self._read_behind(sock, rest)
        try:
            n = sock.recv_into(scratch)
        except BlockingIOError:
            return None
        if n == 0:
            raise EndOfStream
        if n < 4:
            self._rest = bytes(scratch[:n])
            return None
        size = SIZE.unpack_from(scratch)[0]
        end = size + 4
        if end == n and 0 < size <= self.limit:
            return bytearray(scratch[4:n]) if scratch[4] == 0 == scratch[5] else bytes(scratch[4:n])
        return self._split(scratch[:n])

    def next_buffered(self) -> Frame | None:
        """Return a complete frame from bytes already read, or None. Raises what `read` raises."""
        rest = self._rest
        if len(rest) < 4 or self._frame is not None:
            return None
        self._rest = b""
        return self._split(memoryview(rest))

    def read_from(self, data: memoryview) -> Frame | None:
        """Return the first frame of `data`, at least four bytes that another reader has read, and keep the
        bytes after it. Raises ProtocolViolation for a size outside 0..limit.
        """
        return self._split(data)

    def take_rest(self) -> bytes | memoryview:
        """Return and forget the bytes behind the last frame."""
        rest, self._rest = self._rest, b""
        return rest

    def close(self) -> None:
        """Give back the buffer of an incomplete frame."""
        if self._frame is not None:
            self._pool.give_back(self._frame)
            self._frame = None

    def _read_behind(self, sock: Transport, rest: bytes | memoryview) -> Frame | None:
        """Use the bytes already read before those in the kernel, which may be the end of the stream."""
        if len(rest) >= 4 and len(rest) - 4 >= SIZE.unpack_from(rest)[0]:
            return self.next_buffered()
        try:
            n = sock.recv_into(self._scratch)
        except BlockingIOError:
            return None
        if n == 0:
            raise EndOfStream
        self._rest = b""
        data = b"".join((rest, self._scratch[:n]))
        if len(data) < 4:
            self._rest = data
            return None
        return self._split(memoryview(data))

    def _split(self, data: memoryview) -> Frame | None:
        """Return the first frame of `data`, which has at least four bytes, and keep the bytes after it."""
        size: int = SIZE.unpack_from(data)[0]
        if size < 0 or size > self.limit:
            raise invalid_size(size, self.limit)
        end = size + 4
        if len(data) >= end:
            if len(data) > end:
                # Frames of one read are split off one by one: only bytes in the shared scratch buffer are
                # copied.
                self._rest = data[end:] if data.readonly else bytes(data[end:])
            body = data[4:end]
            return bytearray(body) if size > 1 and body[0] == 0 == body[1] else bytes(body)
        if end <= SCRATCH_BYTES:
            self._rest = bytes(data)
            return None
        self._begin(size, data)
        return None

    def _begin(self, size: int, data: memoryview) -> None:
        """Begin a frame larger than the scratch buffer; `data` is its size prefix and the bytes that have
        arrived.
        """
        arrived = len(data) - 4
        frame = self._pool.take(size, arrived)
        frame[:arrived] = data[4:]
        self._frame = frame
        self._filled = arrived
        self._wanted = size

    def _continue(self, sock: Transport) -> Frame | None:
        frame = self._frame
        assert frame is not None
        filled, wanted = self._filled, self._wanted
        if filled == len(frame):
            frame = self._frame = self._pool.grow(frame, wanted)
        with memoryview(frame) as view:
            try:
                n = sock.recv_into(view[filled : min(wanted, len(frame), filled + MAX_AT_ONCE)])
            except BlockingIOError:
                return None
        if n == 0:
            raise EndOfStream
        filled += n
        if filled < wanted:
            self._filled = filled
            return None
        self._frame = None
        return memoryview(frame)[:wanted]
