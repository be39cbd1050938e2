"""Bounds the bytes of requests that wait for handlers. (AutoMQ: queuedRequestSizeSemaphore)

Used by `request_queues`. First come, first served: small requests do not overtake a waiting large one, which
would otherwise starve. Independent of requests and queues.
"""

from collections import deque

import trio


class _Turn:
    """A waiter for `wanted` permits."""

    __slots__ = ("granted", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.granted = trio.Event()


class SizeSemaphore:
    """`limit` permits, one per byte. A request of more than `limit` bytes takes all permits, and waits alone.
    `available` counts free permits (AvailableRequestSize).
    """

    __slots__ = ("_turns", "available", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.available = limit
        self._turns: deque[_Turn] = deque()

    @property
    def waiting(self) -> int:
        """The number of waiters."""
        return len(self._turns)

    def acquire_nowait(self, size: int) -> bool:
        """Take the permits for `size` bytes if they are free and there are no waiters."""
        wanted = min(size, self.limit)
        if self._turns or wanted > self.available:
            return False
        self.available -= wanted
        return True

    async def acquire(self, size: int) -> None:
        """Wait for the permits for `size` bytes. If cancelled, takes none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.acquire_nowait(size):
            return
        turn = _Turn(min(size, self.limit))
        self._turns.append(turn)
        try:
            await turn.granted.wait()
        except trio.Cancelled:
            if turn.granted.is_set():
                self.available += turn.wanted
            else:
                self._turns.remove(turn)
            self._grant()
            raise

    def release(self, size: int) -> None:
        """Give back the permits for `size` bytes."""
        self.available += min(size, self.limit)
        if self._turns:
            self._grant()

    def _grant(self) -> None:
        turns = self._turns
        while turns and turns[0].wanted <= self.available:
            turn = turns.popleft()
            self.available -= turn.wanted
            turn.granted.set()
