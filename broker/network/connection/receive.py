"""From a byte stream to size-delimited frames. (Kafka: NetworkReceive, and KafkaChannel.read)

Called by `network.processor` when a socket is readable. Knows the four-byte size prefix and nothing of what
a frame holds, except that the body of a Produce request (API key 0) must be writable, because the log
patches offsets in place.

One read takes whatever the kernel has, up to the scratch buffer: most requests arrive whole and cost one
system call. What lies beyond the first frame stays here until the channel is unmuted (one completed receive
per channel at a time). A frame larger than the scratch buffer gets a buffer of its own, which the rest is
received into without another copy. Where the memory of requests is bounded, `network.memory.leased_receive`
is in its place.

This half of a connection is the only one that knows of bytes which the kernel no longer has: `has_buffered`
says so, and `next_buffered` is asked once the connection may be read again.
"""

import struct
from typing import Final

from broker.errors import ProtocolViolation
from broker.network.connection.frame_pool import Buffer, FramePool
from broker.network.connection.transport import Transport

SIZE: Final = struct.Struct(">i")
SCRATCH_BYTES: Final = 64 * 1024

MOST_AT_ONCE: Final = 1024 * 1024
"""Bytes of a large frame that are taken from the kernel in one go; ours. It may have several megabytes, and a
megabyte takes 0.3 ms, most of it for memory that was not used before.
"""

Frame = bytes | bytearray | memoryview
"""A small frame is an object of its own; a large one is a view of a pooled buffer, given back by
`FramePool.release`.
"""


INVALID_RECEIVE: Final = "Invalid receive"


def invalid_size(size: int, limit: int) -> ProtocolViolation:
    """In Kafka's words, also for a size below 0."""
    return ProtocolViolation(f"{INVALID_RECEIVE} (size = {size} larger than {limit})")


class EndOfStream(Exception):  # noqa: N818 - how a conversation ends is not an error
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
        """Whether bytes were read that no frame has used yet, so that the socket alone does not tell what
        is ready.
        """
        return bool(self._rest)

    @property
    def waits_for_memory(self) -> bool:
        """Whether a request is here or announced that may not be received for want of memory."""
        return False

    def read(self, sock: Transport) -> Frame | None:
        """Reads once; the next whole frame without its size prefix, or None.

        Raises EndOfStream, ProtocolViolation for a size outside 0..limit, OSError from the socket.
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
        """A frame that can be had without hearing from the kernel; None if there is no whole one. Raises
        what `read` raises.
        """
        rest = self._rest
        if len(rest) < 4 or self._frame is not None:
            return None
        self._rest = b""
        return self._split(memoryview(rest))

    def close(self) -> None:
        """Gives back what a frame in assembly holds."""
        if self._frame is not None:
            self._pool.give_back(self._frame)
            self._frame = None

    def _read_behind(self, sock: Transport, rest: bytes | memoryview) -> Frame | None:
        """What is here comes before what the kernel has, which may be the end of the stream."""
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
        """The first frame of `data`, of at least four bytes; what is behind it is kept."""
        size: int = SIZE.unpack_from(data)[0]
        if size < 0 or size > self.limit:
            raise invalid_size(size, self.limit)
        end = size + 4
        if len(data) >= end:
            if len(data) > end:
                # Many frames in one read are cut off one by one: only what lies in the scratch is copied.
                self._rest = data[end:] if data.readonly else bytes(data[end:])
            body = data[4:end]
            return bytearray(body) if size > 1 and body[0] == 0 == body[1] else bytes(body)
        if end <= SCRATCH_BYTES:
            self._rest = bytes(data)
            return None
        self._begin(size, data)
        return None

    def _begin(self, size: int, data: memoryview) -> None:
        """A frame that is larger than the scratch; `data` is its size and what has arrived of it."""
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
                n = sock.recv_into(view[filled : min(wanted, len(frame), filled + MOST_AT_ONCE)])
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
