"""Accepted sockets of addresses that exceed their connection rate. (Kafka: throttledSockets)

One per acceptor, inside its gate. Ordered by the end of the wait, earliest first; Kafka's heap has the latest
first, so that a short wait lasts as long as the longest there. Independent of clocks; never reads a socket.
"""

import socket
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class ThrottledSocket:
    """`sock` is accepted but not read. `bound` is the rate that its address has exceeded."""

    sock: socket.socket
    peer: tuple[str, int]
    end_ms: int
    bound: float


class ThrottledSockets:
    """A heap of throttled sockets. The caller that pops one must close or serve it."""

    __slots__ = ("_heap", "_next")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ThrottledSocket]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, parked: ThrottledSocket, most: int) -> list[ThrottledSocket]:
        """Add a socket. Returns the earliest ones, removed so that at most `most` remain."""
        heappush(self._heap, (parked.end_ms, self._next, parked))
        self._next += 1
        return [heappop(self._heap)[2] for _ in range(len(self._heap) - most)]

    def next_deadline(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> ThrottledSocket | None:
        """Return the earliest socket whose wait is over, or None."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heappop(self._heap)[2]
        return None

    def close(self) -> None:
        """Close all sockets."""
        while self._heap:
            heappop(self._heap)[2].sock.close()
