"""Accepted sockets of addresses that connect too fast, until their time is over. (Kafka: throttledSockets)

One of each per acceptor, inside its gate. Ordered by the end of the wait, the earliest first; Kafka's heap
has the latest first, so that there a short wait lasts as long as the longest. Knows no clock and reads no
socket.
"""

import socket
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

MOST_PARKED: Final = 1_000
"""Ours; Kafka has no bound. What a storm is held in must not use up the descriptors of everybody else."""


@dataclass(frozen=True, slots=True)
class Parked:
    """`sock` is accepted and nothing is read from it. `bound` is the rate that its address has exceeded."""

    sock: socket.socket
    peer: tuple[str, int]
    end_ms: int
    bound: float


class ParkedSockets:
    """Whoever takes one out closes it or serves it."""

    __slots__ = ("_heap", "_most", "_next")

    def __init__(self, most: int = MOST_PARKED) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Parked]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, parked: Parked) -> Parked | None:
        """Where it is full, the earliest has to leave before its time and is returned."""
        heappush(self._heap, (parked.end_ms, self._next, parked))
        self._next += 1
        return heappop(self._heap)[2] if len(self._heap) > self._most else None

    def next_deadline(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Parked | None:
        """The earliest whose time is over, or None."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heappop(self._heap)[2]
        return None

    def close(self) -> None:
        """Closes all of them."""
        while self._heap:
            heappop(self._heap)[2].sock.close()
