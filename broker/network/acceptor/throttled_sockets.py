"""Accepted sockets of addresses that connect too fast, until their time is over. (Kafka: throttledSockets)

One of each per acceptor, inside its gate. Ordered by the end of the wait, the earliest first; Kafka's heap
has the latest first, so that there a short wait lasts as long as the longest. Knows no clock and reads no
socket.
"""

import socket
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class ThrottledSocket:
    """`sock` is accepted and nothing is read from it. `bound` is the rate that its address has exceeded."""

    sock: socket.socket
    peer: tuple[str, int]
    end_ms: int
    bound: float


class ThrottledSockets:
    """Whoever takes one out closes it or serves it."""

    __slots__ = ("_heap", "_next")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ThrottledSocket]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, parked: ThrottledSocket, most: int) -> list[ThrottledSocket]:
        """Returns the earliest ones, which leave before their time so that at most `most` remain."""
        heappush(self._heap, (parked.end_ms, self._next, parked))
        self._next += 1
        return [heappop(self._heap)[2] for _ in range(len(self._heap) - most)]

    def next_deadline(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> ThrottledSocket | None:
        """The earliest whose time is over, or None."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heappop(self._heap)[2]
        return None

    def close(self) -> None:
        """Closes all of them."""
        while self._heap:
            heappop(self._heap)[2].sock.close()
