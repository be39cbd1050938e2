"""The buckets of every level of a timing wheel, earliest deadline first.

Called by `timing_wheel`. Independent of time: `pop` returns the earliest bucket, due or not. Two levels can
have a bucket of the same deadline, and replays of Kafka show that it empties them in the order of
java.util.PriorityQueue. `heapq` sifts differently, so this module has its own heap.
"""

from typing import Generic, Protocol, TypeVar


class Due(Protocol):
    """An item that can be queued."""

    deadline_ms: int


Item = TypeVar("Item", bound=Due)


class DelayQueue(Generic[Item]):
    """A binary heap; `first_deadline` is None when it is empty."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[Item] = []

    @property
    def first_deadline(self) -> int | None:
        return self._heap[0].deadline_ms if self._heap else None

    def push(self, item: Item) -> None:
        heap = self._heap
        heap.append(item)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if item.deadline_ms >= heap[parent].deadline_ms:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def pop(self) -> Item:
        """Remove and return the earliest item. Raises IndexError if empty."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        earliest = heap[0]
        place, size = 0, len(heap)
        while (child := 2 * place + 1) < size:
            right = child + 1
            if right < size and heap[child].deadline_ms > heap[right].deadline_ms:
                child = right
            if last.deadline_ms <= heap[child].deadline_ms:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return earliest
