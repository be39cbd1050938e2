"""A frame pool that keeps requests within `queued.max.request.bytes`, with a queue of waiting connections.
(Kafka: the memory mute of Selector and KafkaChannel, KIP-72)

One for all processors of a socket server, in place of the plain `FramePool`, unless the key is 0 or -1. A
`LeasedReceive` asks as soon as it knows the size of its frame; the lease ends when the frame is released, or
with its connection. Uses connections only through the methods of `LeasedReceive`.

Kafka unmutes every muted channel when memory is free again, and shuffles the ready ones so that none starves.
Here connections without memory queue: released memory is granted to the one that has waited longest. So no
connection wakes in vain and none is overtaken, because memory is never free while a connection waits. The
shuffle remains for connections that are ready in the same poll while little memory is left.

A frame takes memory with its first byte, not with its size prefix. In Kafka a client that sends a part of a
request and stalls keeps its memory until its connection is idle; here the connection is closed once others
have waited for that memory.
"""

import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from broker.clock import Clock
from broker.network.connection.frame_pool import FramePool
from broker.network.memory.memory_pool import Lease, MemoryPool
from broker.network.reaper import Reaper
from broker.network.selector import Poll

if TYPE_CHECKING:
    from broker.network.memory.leased_receive import LeasedReceive

PROGRESS_BYTES: Final = 64 * 1024
"""Bytes that a frame must receive to count as making progress, unless it ends before; ours. Within five
seconds, the default of `stall_ms`, a link of 13 kB/s delivers them.
"""


class LeasedFrames(FramePool):
    """A frame pool that allocates from the memory pool first. `stall_ms` is how long a frame with memory may
    make no progress while others wait (`queued.request.stall.timeout.ms`). With `only_large`, requests that
    fit into the scratch buffer of a processor need no lease.
    """

    __slots__ = (
        "_arriving",
        "_clock",
        "_leases",
        "_short_since_ms",
        "_stall_ms",
        "_waiting",
        "memory",
        "only_large",
        "reaper",
    )

    def __init__(
        self,
        memory: MemoryPool,
        stall_ms: int,
        clock: Clock,
        task_prefix: str = "",
        *,
        only_large: bool = False,
    ) -> None:
        super().__init__()
        self.memory = memory
        self.only_large = only_large
        name = f"{task_prefix}memory-pool-reaper"
        self.reaper = Reaper(name, self._next_deadline, self._close_stalled, clock)
        self._clock = clock
        self._stall_ms = stall_ms
        self._leases: dict[int, Lease] = {}
        """By the identity of the buffer, from the complete frame until its release."""
        self._waiting: OrderedDict[LeasedReceive, None] = OrderedDict()
        self._short_since_ms = 0
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
            self._waiting.setdefault(receive)
            self.reaper.poke()
        return lease

    def goes_on(self, receive: "LeasedReceive") -> None:
        """Record that the frame has begun, or has received `PROGRESS_BYTES` more."""
        self._arriving[receive] = self._clock.ms()
        self._arriving.move_to_end(receive)
        if self._waiting:
            self.reaper.poke()

    def is_whole(self, receive: "LeasedReceive", frame: memoryview, lease: Lease) -> None:
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
            granted = self.memory.try_allocate(receive.announced, now_ms)
            if granted is None:
                return
            del self._waiting[receive]
            receive.grant(granted)

    def leave(self, receive: "LeasedReceive") -> None:
        """Remove a closed connection."""
        self._waiting.pop(receive, None)
        self._arriving.pop(receive, None)

    def is_waiting(self, receive: "LeasedReceive") -> bool:
        return receive in self._waiting

    def fair(self, poll: Poll) -> Poll:
        """Return `poll` with its results shuffled while memory is low, so that no connection is favoured."""
        memory = self.memory

        def poll_fairly(timeout: float, most: int) -> list[tuple[int, int]]:
            ready = poll(timeout, most)
            if memory.is_low:
                random.shuffle(ready)
            return ready

        return poll_fairly

    def _next_deadline(self) -> int | None:
        if not self._waiting or not self._arriving:
            return None
        return max(next(iter(self._arriving.values())), self._short_since_ms) + self._stall_ms

    def _close_stalled(self, now_ms: int) -> None:
        while (due_ms := self._next_deadline()) is not None and due_ms <= now_ms:
            receive, _ = self._arriving.popitem(last=False)
            receive.hang_up(
                f"a request made no progress for {self._stall_ms} ms while others waited for its memory"
            )
