"""Requests that are in memory only as far as `queued.max.request.bytes` allows, and who waits for room.
(Kafka: the memory mute of Selector and KafkaChannel, KIP-72)

One for all processors of a socket server, in the place of the plain `FramePool`, unless the key is 0 or -1.
A `LeasedReceive` asks as soon as the size of its frame is known; the lease ends when the frame is released,
or with its connection. Knows connections only by what a `LeasedReceive` can be told.

Kafka opens every muted channel again when memory has come back, and shuffles the ready ones so that none
starves. Here those who found no memory stand in line: what is released is granted to the one that has waited
longest. Nobody is woken in vain, and nobody can be overtaken, because memory is never free while somebody
waits. The shuffle stays for those who are ready in the same moment while little is left.

A frame holds memory from its first byte on, not from its announcement. A client that begins and does not go
on would hold it until it is idle, as in Kafka; here it is hung up on once others have waited for it.
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
"""What a frame must bring, unless it ends before, to be going on; ours. In five seconds, the default of
`stall_ms`, a link of 13 kB/s brings it.
"""


class LeasedFrames(FramePool):
    """A frame pool that asks the memory pool first. `stall_ms` is how long a frame that has memory may bring
    nothing while others wait (`queued.request.stall.timeout.ms`). `only_large`: requests that fit into the
    scratch buffer of a processor are received without a lease.
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
        """By the identity of the buffer, from the whole frame until its release."""
        self._waiting: OrderedDict[LeasedReceive, None] = OrderedDict()
        self._short_since_ms = 0
        self._arriving: OrderedDict[LeasedReceive, int] = OrderedDict()
        """Frames that have memory and are not whole, with when they last went on; the longest ago first."""

    @property
    def waiting(self) -> int:
        """Connections that are muted for want of memory."""
        return len(self._waiting)

    def ask(self, receive: "LeasedReceive", size: int) -> Lease | None:
        """Memory for a frame, or None: `receive` is then in line, and is given it by `grant`."""
        now_ms = self._clock.ms()
        lease = self.memory.try_allocate(size, now_ms)
        if lease is None:
            if not self._waiting:
                self._short_since_ms = now_ms
            self._waiting.setdefault(receive)
            self.reaper.poke()
        return lease

    def goes_on(self, receive: "LeasedReceive") -> None:
        """Its frame has begun, or has brought `PROGRESS_BYTES` more."""
        self._arriving[receive] = self._clock.ms()
        self._arriving.move_to_end(receive)
        if self._waiting:
            self.reaper.poke()

    def is_whole(self, receive: "LeasedReceive", frame: memoryview, lease: Lease) -> None:
        """The lease is the frame's now, until `release`."""
        self._arriving.pop(receive, None)
        self._leases[id(frame.obj)] = lease

    def release(self, frame: memoryview) -> None:
        lease = self._leases.pop(id(frame.obj), None)
        super().release(frame)
        if lease is not None:
            self.end(lease)

    def end(self, lease: Lease) -> None:
        """Takes the memory back, and grants it to those who wait."""
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
        """The connection is closed: it waits for nothing, and brings nothing."""
        self._waiting.pop(receive, None)
        self._arriving.pop(receive, None)

    def is_waiting(self, receive: "LeasedReceive") -> bool:
        return receive in self._waiting

    def fair(self, poll: Poll) -> Poll:
        """`poll` in an order left to chance while memory is low: the last of it goes to no favourites."""
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
                f"a request stood still for {self._stall_ms} ms while others waited for its memory"
            )
