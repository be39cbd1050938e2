"""The receiving half of a connection with bounded request memory. (Kafka: NetworkReceive with a MemoryPool,
KafkaChannel.isInMutableState)

`receiving` creates one per connection if `queued.max.request.bytes` is positive. Reads only the four bytes of
a size until the pool has granted that size; the rest stays in the kernel, and TCP slows the client down. So a
connection without memory holds four bytes.

A frame that has memory is never muted: it could not give the memory back (KIP-72). Connections before login
or in a TLS handshake need no lease; as in Kafka, the smaller frame limit before login bounds their memory.
Every frame is a view of a pooled buffer; `FramePool.release` gives back the buffer and the lease.
"""

import logging
import socket
from collections.abc import Callable

from broker.network.connection.channel import Channel
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SIZE, EndOfStream, Frame, Receive, invalid_size
from broker.network.connection.transport import Transport
from broker.network.failures import Place
from broker.network.memory.leased_frames import PROGRESS_BYTES, LeasedFrames
from broker.network.memory.memory_pool import Lease
from broker.network.selector import READ, Poll, Selector

NewReceive = Callable[[int, socket.socket], Receive]
"""Creates the receiving half of a connection from its frame limit and its socket."""


class LeasedReceive(Receive):
    """`announced` is the size of the frame being received, 0 between two frames."""

    __slots__ = ("_fd", "_lease", "_leased", "_progress", "_selector", "announced")

    def __init__(
        self, limit: int, scratch: memoryview, leased: LeasedFrames, selector: Selector, fd: int
    ) -> None:
        super().__init__(limit, scratch, leased)
        self.announced = 0
        self._leased = leased
        self._selector = selector
        self._fd = fd
        self._lease: Lease | None = None
        self._progress = 0

    @property
    def has_buffered(self) -> bool:
        """Whether memory was granted and no byte has been received into it."""
        return self._lease is not None and self._frame is None

    @property
    def waits_for_memory(self) -> bool:
        return self._leased.is_waiting(self)

    def read(self, sock: Transport) -> Frame | None:
        if self._frame is None:
            size = self.announced or self._read_size(sock)
            if not size:
                return None if size is None else b""
            if self._lease is None and not self._ask(size):
                return None
            self._frame = self._pool.take(size, 0)
            self._filled = 0
            self._wanted = size
            self._progress = 0
        frame = self._continue(sock)
        if frame is not None:
            self._end(frame)
        elif not self._filled:
            self._postpone()
        elif self._filled >= self._progress and self._lease is not None:
            self._progress = self._filled + PROGRESS_BYTES
            self._leased.goes_on(self)
        return frame

    def next_buffered(self) -> Frame | None:
        """Read after memory has been granted; epoll has already reported the bytes in the kernel."""
        return self.read(self._channel.sock)

    def grant(self, lease: Lease) -> None:
        """Take the memory that this connection waited for, and read on."""
        self._lease = lease
        channel = self._channel
        channel.responder.reopen(channel)

    def hang_up(self, reason: str) -> None:
        channel, selector = self._channel, self._selector
        selector.failures.attempt(
            Place.CLOSE, channel.id, selector.close_channel, channel, reason, logging.WARNING
        )

    def close(self) -> None:
        super().close()
        self._leased.leave(self)
        self._end_lease()

    @property
    def _channel(self) -> Channel:
        return self._selector.channels[self._fd]

    def _read_size(self, sock: Transport) -> int | None:
        """Return the announced size once its four bytes have arrived, which are read even without memory."""
        rest = self._rest
        space = self._scratch[: 4 - len(rest)]
        try:
            n = sock.recv_into(space)
        except BlockingIOError:
            return None
        if n == 0:
            raise EndOfStream
        rest = b"".join((rest, space[:n]))
        if len(rest) < 4:
            self._rest = rest
            return None
        self._rest = b""
        size: int = SIZE.unpack(rest)[0]
        if size < 0 or size > self.limit:
            raise invalid_size(size, self.limit)
        self.announced = size
        return size

    def _ask(self, size: int) -> bool:
        """Return whether the frame may be received now. If not, mutes the connection until `grant`."""
        channel = self._channel
        if not channel.authenticated:
            return True
        self._lease = self._leased.ask(self, size)
        if self._lease is not None:
            return True
        self._selector.want(channel, channel.interest & ~READ)
        return False

    def _end(self, frame: Frame) -> None:
        """Pass the lease to the complete frame."""
        self.announced = 0
        lease, self._lease = self._lease, None
        if lease is not None:
            assert isinstance(frame, memoryview)
            self._leased.is_whole(self, frame, lease)

    def _postpone(self) -> None:
        """Release the memory of an announced frame until its first byte arrives."""
        super().close()
        self._end_lease()

    def _end_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._leased.end(lease)


class LargeReceive(LeasedReceive):
    """Receives requests that fit into the scratch buffer as a plain `Receive` does, in one read and without a
    lease. Only a larger request needs a lease before more is read than arrived with its size. A connection
    without memory holds up to 64 KiB, and small requests cost nothing extra.
    """

    __slots__ = ("_has_buffer",)

    def __init__(
        self, limit: int, scratch: memoryview, leased: LeasedFrames, selector: Selector, fd: int
    ) -> None:
        super().__init__(limit, scratch, leased, selector, fd)
        self._has_buffer = False

    # The hot path is the plain one, without an extra call.
    read = Receive.read
    next_buffered = Receive.next_buffered
    has_buffered = Receive.has_buffered

    def close(self) -> None:
        if not self._has_buffer:
            self._frame = None  # not a pooled buffer
        super().close()

    def _begin(self, size: int, data: memoryview) -> None:
        if len(data) == SIZE.size:  # announced and not begun
            self._rest = bytes(data)
            return
        self.announced = size
        self._wanted = size
        self._filled = len(data) - SIZE.size
        self._frame = bytearray(data[SIZE.size :])
        self._has_buffer = False
        if self._ask(size):
            self._take_buffer()

    def _continue(self, sock: Transport) -> Frame | None:
        if not self._has_buffer:
            if self._lease is None and not self._ask(self.announced):
                return None
            self._take_buffer()
        frame = super()._continue(sock)
        if frame is not None:
            self._has_buffer = False
            self._end(frame)
        elif self._filled >= self._progress and self._lease is not None:
            self._progress = self._filled + PROGRESS_BYTES
            self._leased.goes_on(self)
        return frame

    def _take_buffer(self) -> None:
        """Move the frame into a pooled buffer, for which there is a lease. Raises MemoryError."""
        arrived = self._frame
        assert arrived is not None
        frame = self._pool.take(self._wanted, self._filled)
        frame[: self._filled] = arrived
        self._frame = frame
        self._has_buffer = True
        self._progress = self._filled + PROGRESS_BYTES
        if self._lease is not None:
            self._leased.goes_on(self)


def receiving(frames: FramePool, scratch: memoryview, selector: Selector) -> NewReceive:
    """Return the factory of a processor's receiving halves: the plain one if memory is not bounded."""
    if not isinstance(frames, LeasedFrames):
        return lambda limit, _sock: Receive(limit, scratch, frames)
    leased = frames
    if leased.only_large:
        return lambda limit, sock: LargeReceive(limit, scratch, leased, selector, sock.fileno())
    return lambda limit, sock: LeasedReceive(limit, scratch, leased, selector, sock.fileno())


def polling(frames: FramePool, selector: Selector) -> Poll:
    """Return the function with which a processor polls: a fair one if all requests need memory."""
    if not isinstance(frames, LeasedFrames) or frames.only_large:
        return selector.poll
    return frames.fair(selector.poll)
