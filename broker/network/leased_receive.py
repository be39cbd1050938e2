"""Receives requests within `queued.max.request.bytes`, with a queue of waiting connections. (Kafka:
NetworkReceive with a MemoryPool, and the memory mute of Selector and KafkaChannel, KIP-72)

`LeasedFrames` is the frame pool of all processors of a socket server, in place of the plain `FramePool`,
unless the key is 0 or -1. `receiving` creates a `FullyLeasedReceive` per connection. It reads only the four
bytes of a size until the pool has granted that size; the rest stays in the kernel, and TCP slows the client
down. So a connection without memory holds four bytes. The lease ends when the frame is released, or with its
connection; `FramePool.release` gives back the buffer and the lease.

Kafka unmutes every muted channel when memory is free again, and shuffles the ready ones so that none starves.
Here connections without memory queue: released memory is granted to the one that has waited longest. So no
connection wakes in vain and none is overtaken, because memory is never free while a connection waits. The
shuffle remains for connections that are ready in the same poll while little memory is left.

A frame takes memory with its first byte, not with its size prefix. A frame that has memory is never muted: it
could not give the memory back. So a throttle, which can begin within a frame where a connection may have
several requests, lets the frame end, and memory is not granted to a muted connection. In Kafka a client that
sends a part of a request and stalls keeps its memory until its connection is idle; here the connection is
closed once others have waited for that memory.
Connections before login or in a TLS handshake need no lease; as in Kafka, the smaller frame limit before
login bounds their memory.
"""

import logging
import random
import socket
from collections import OrderedDict
from collections.abc import Callable
from mmap import mmap
from typing import Final

from broker.common.clock import Clock
from broker.network.connection.channel import Channel, MuteState
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SIZE, EndOfStream, Frame, Receive, invalid_size
from broker.network.connection.transport import Transport
from broker.network.failures import FailedStep
from broker.network.memory_pool import Lease, MemoryPool
from broker.network.reaper import Reaper
from broker.network.selector import READ, Poll, Selector

logger = logging.getLogger(__name__)

QUIET_MS: Final = 1_000
"""Time between two log lines that memory has run out; ours."""

PROGRESS_BYTES: Final = 64 * 1024
"""Bytes that a frame must receive to count as making progress, unless it ends before; ours. Within five
seconds, the default of `stall_ms`, a link of 13 kB/s delivers them.
"""


class LeasedFrames(FramePool):
    """A frame pool that allocates from the memory pool first. `stall_ms` is how long a frame with memory may
    make no progress while others wait (`queued.request.stall.timeout.ms`). With `only_large`, requests that
    fit into the scratch buffer of a processor need no lease.
    """

    def __init__(
        self,
        memory: MemoryPool,
        stall_ms: int,
        clock: Clock,
        task_name_prefix: str = "",
        *,
        only_large: bool = False,
        unmap: Callable[[mmap], None] | None = None,
    ) -> None:
        super().__init__(unmap)
        self.memory = memory
        self.only_large = only_large
        name = f"{task_name_prefix}memory-pool-reaper"
        self.reaper = Reaper(name, self._next_deadline, self._close_stalled, clock)
        self._clock = clock
        self._stall_ms = stall_ms
        self._leases: dict[int, Lease] = {}
        """By the identity of the buffer, from the complete frame until its release."""
        self._waiting: OrderedDict[LeasedReceive, None] = OrderedDict()
        self._short_since_ms = 0
        self._is_logged = False
        """Whether the log says that memory is low, and not yet that it no longer is."""
        self._quiet_until_ms = 0
        self._arriving: OrderedDict[LeasedReceive, int] = OrderedDict()
        """Incomplete frames that have memory, with the time of their last progress; the oldest first."""

    @property
    def waiting(self) -> int:
        """The number of connections muted for lack of memory."""
        return len(self._waiting)

    def ask(self, receive: "LeasedReceive", size: int) -> Lease | None:
        """Return memory for a frame, or None: `receive` then queues, and `grant` gives it the memory."""
        now_ms = self._clock.ms()
        lease = self.memory.try_allocate(size, now_ms)
        if lease is None:
            if not self._waiting:
                self._short_since_ms = now_ms
                self._log_low(receive, size, now_ms)
            self._waiting.setdefault(receive)
            self._wake_reaper()
        return lease

    def progressed(self, receive: "LeasedReceive") -> None:
        """Record that the frame has begun, or has received `PROGRESS_BYTES` more."""
        self._arriving[receive] = self._clock.ms()
        self._arriving.move_to_end(receive)
        if self._waiting:
            self._wake_reaper()

    def completed(self, receive: "LeasedReceive", frame: memoryview, lease: Lease) -> None:
        """Pass the lease to the complete frame, until `release`."""
        self._arriving.pop(receive, None)
        self._leases[id(frame.obj)] = lease

    def release(self, frame: memoryview) -> None:
        lease = self._leases.pop(id(frame.obj), None)
        super().release(frame)
        if lease is not None:
            self.end(lease)

    def end(self, lease: Lease) -> None:
        """Take memory back, and grant it to waiting connections."""
        now_ms = self._clock.ms()
        self.memory.release(lease, now_ms)
        while self._waiting:
            receive = next(iter(self._waiting))
            if receive.is_muted:
                del self._waiting[receive]  # it asks again when it is read again
                continue
            granted = self.memory.try_allocate(receive.announced, now_ms)
            if granted is None:
                return
            del self._waiting[receive]
            receive.grant(granted)
        self._log_recovery()

    def forget(self, receive: "LeasedReceive") -> None:
        """Remove a closed connection."""
        self._waiting.pop(receive, None)
        self._arriving.pop(receive, None)
        self._log_recovery()

    def is_waiting(self, receive: "LeasedReceive") -> bool:
        return receive in self._waiting

    def shuffling(self, poll: Poll) -> Poll:
        """Return `poll` with its results shuffled while memory is low, so that no connection is favoured."""
        memory = self.memory

        def poll_fairly(timeout: float, most: int) -> list[tuple[int, int]]:
            ready = poll(timeout, most)
            if memory.is_low:
                random.shuffle(ready)
            return ready

        return poll_fairly

    def _log_low(self, receive: "LeasedReceive", size: int, now_ms: int) -> None:
        """Log that memory has run out, at most once per QUIET_MS: under load it may do so at any request."""
        if self._is_logged or now_ms < self._quiet_until_ms:
            return
        logger.info(
            f"Broker low on memory - could not allocate buffer of size {size} for source {receive.source}"
        )
        self._is_logged = True
        self._quiet_until_ms = now_ms + QUIET_MS

    def _log_recovery(self) -> None:
        if self._is_logged and not self._waiting:
            logger.info("Broker no longer low on memory - unmuting incoming sockets")
            self._is_logged = False

    def _next_deadline(self) -> int | None:
        if not self._waiting or not self._arriving:
            return None
        return max(next(iter(self._arriving.values())), self._short_since_ms) + self._stall_ms

    def _wake_reaper(self) -> None:
        deadline = self._next_deadline()
        if deadline is not None:
            self.reaper.wake_by(deadline)

    def _close_stalled(self, now_ms: int) -> None:
        while (due_ms := self._next_deadline()) is not None and due_ms <= now_ms:
            receive, _ = self._arriving.popitem(last=False)
            receive.close_stalled(
                f"a request made no progress for {self._stall_ms} ms while others waited for its memory"
            )


NewReceive = Callable[[int, socket.socket], Receive]
"""Creates the receiving half of a connection from its frame limit and its socket."""


class LeasedReceive(Receive):
    """The lease of one connection. `announced` is the size of the frame being received, 0 between two."""

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
    def waits_for_memory(self) -> bool:
        return self._leased.is_waiting(self)

    @property
    def has_memory(self) -> bool:
        return self._lease is not None

    @property
    def is_muted(self) -> bool:
        """Whether the connection is not read because of its requests or a throttle."""
        return self._channel.mute_state is not MuteState.NOT_MUTED

    @property
    def source(self) -> str:
        """The connection's id."""
        return self._channel.id

    def grant(self, lease: Lease) -> None:
        """Take the memory that this connection waited for, and read on."""
        self._lease = lease
        channel = self._channel
        channel.responder.resume_reading(channel)

    def close_stalled(self, reason: str) -> None:
        channel, selector = self._channel, self._selector
        selector.failures.attempt(
            FailedStep.CLOSE, channel.id, selector.close_channel, channel, reason, logging.WARNING
        )

    def close(self) -> None:
        super().close()
        self._leased.forget(self)
        self._end_lease()

    @property
    def _channel(self) -> Channel:
        return self._selector.channels[self._fd]

    def _ask(self, size: int) -> bool:
        """Return whether the frame may be received now. If not, mutes the connection until `grant`."""
        channel = self._channel
        if not channel.authenticated:
            return True
        self._lease = self._leased.ask(self, size)
        if self._lease is not None:
            return True
        self._selector.set_interest(channel, channel.interest & ~READ)
        return False

    def _end(self, frame: Frame) -> None:
        """Pass the lease to the complete frame."""
        self.announced = 0
        lease, self._lease = self._lease, None
        if lease is not None:
            assert isinstance(frame, memoryview)
            self._leased.completed(self, frame, lease)

    def _end_lease(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._leased.end(lease)


class FullyLeasedReceive(LeasedReceive):
    """Needs a lease for every request, before any of its bytes is read."""

    __slots__ = ()

    @property
    def has_buffered(self) -> bool:
        """Whether memory was granted and no byte has been received into it."""
        return self._lease is not None and self._frame is None

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
            self._leased.progressed(self)
        return frame

    def next_buffered(self) -> Frame | None:
        """Read after memory has been granted; epoll has already reported the bytes in the kernel."""
        return self.read(self._channel.sock)

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

    def _postpone(self) -> None:
        """Release the memory of an announced frame until its first byte arrives."""
        super().close()
        self._end_lease()


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
            self._leased.progressed(self)
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
            self._leased.progressed(self)


def receiving(frames: FramePool, scratch: memoryview, selector: Selector) -> NewReceive:
    """Return the factory of a processor's receiving halves: the plain one if memory is not bounded."""
    if not isinstance(frames, LeasedFrames):
        return lambda limit, _sock: Receive(limit, scratch, frames)
    leased = frames
    if leased.only_large:
        return lambda limit, sock: LargeReceive(limit, scratch, leased, selector, sock.fileno())
    return lambda limit, sock: FullyLeasedReceive(limit, scratch, leased, selector, sock.fileno())


def polling(frames: FramePool, selector: Selector) -> Poll:
    """Return the function with which a processor polls: a fair one if all requests need memory."""
    if not isinstance(frames, LeasedFrames) or frames.only_large:
        return selector.poll
    return frames.shuffling(selector.poll)
