"""The orders of Java's collections: Kafka's results depend on them where two candidates are equal.

Called by `configured` and `assignor`, whose results are those of Kafka for the same input.
"""

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.java_hash import java_hash

DEFAULT_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75
_TREE_LENGTH: Final = 8
"""Keys in a bin from which a table of fewer than `_TREE_CAPACITY` bins grows."""
_TREE_CAPACITY: Final = 64


Bins = dict[int, list[tuple[int, str]]]
"""The keys of a hash map by the number of their bin, each with its hash."""


def hash_map_order(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> Steps[list[str]]:
    """Return the distinct keys in the order of a `java.util.HashMap` to which `put` adds them in this order.
    `capacity` is what the map is created with.

    Left out: Java makes a tree of a bin of more than 8 keys if the table has 64 bins. Its order is not
    followed; random ids hardly ever get there.
    """
    size = _table_size(capacity)
    bins: Bins = {}
    seen: set[str] = set()
    for key in keys:
        if key not in seen:
            seen.add(key)
            code = _spread_hash(key)
            some = bins.setdefault(code & (size - 1), [])
            some.append((code, key))
            if len(some) > _TREE_LENGTH and size < _TREE_CAPACITY:
                size *= 2
                bins = yield from _redistributed(bins, size)
            if len(seen) > int(size * _LOAD_FACTOR):
                size *= 2
                bins = yield from _redistributed(bins, size)
        yield
    return (yield from _listed(bins, size))


def computed_order(keys: Iterable[str], capacity: int) -> Steps[list[str]]:
    """`hash_map_order` of a map to which Java's computeIfAbsent adds the keys: it adds at the front of a
    bin, and the table grows at the next call, also if that adds nothing. Left out: trees, of 8 keys or more.
    """
    size = _table_size(capacity)
    bins: Bins = {}
    seen: set[str] = set()
    for key in keys:
        if len(seen) > int(size * _LOAD_FACTOR):
            size *= 2
            bins = yield from _redistributed(bins, size)
        if key not in seen:
            seen.add(key)
            code = _spread_hash(key)
            some = bins.setdefault(code & (size - 1), [])
            some.insert(0, (code, key))
            if len(some) >= _TREE_LENGTH and size < _TREE_CAPACITY:
                size *= 2
                bins = yield from _redistributed(bins, size)
        yield
    return (yield from _listed(bins, size))


def _table_size(capacity: int) -> int:
    size = 1
    while size < capacity:
        size *= 2
    return size


def _spread_hash(key: str) -> int:
    code = java_hash(key) & 0xFFFFFFFF
    return code ^ code >> 16


def _redistributed(bins: Bins, size: int) -> Steps[Bins]:
    """Move the keys to twice as many bins. Each of these gets those of one bin, so their order is kept."""
    found: Bins = {}
    while bins:  # freed one by one
        _, some = bins.popitem()
        for each in some:
            found.setdefault(each[0] & (size - 1), []).append(each)
        yield
    return found


def _listed(bins: Bins, size: int) -> Steps[list[str]]:
    found: list[str] = []
    for at in range(size):
        found += [key for _, key in bins.pop(at, ())]
        yield
    return found


def sorted_as_java(texts: Iterable[str]) -> Steps[list[str]]:
    """Return the distinct texts sorted by UTF-16 code units, as `String.compareTo` does."""
    by_units = {}
    for text in texts:
        by_units[text.encode("utf-16-be", "surrogatepass")] = text
        yield
    found = []
    for units in (yield from sorted_in_steps(by_units)):
        found.append(by_units[units])
        yield
    return found


class Loaded(Protocol):
    """An element of a queue. Its load changes only while it is not in one."""

    load: float


Element = TypeVar("Element", bound=Loaded)


class LoadQueue(Generic[Element]):
    """Elements by load, the least first. Among equal ones the order is that of `java.util.PriorityQueue`,
    which depends on the history of the queue.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[Element] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, element: Element) -> None:
        heap, load = self._heap, element.load
        at = len(heap)
        heap.append(element)
        while at:
            parent = (at - 1) >> 1
            other = heap[parent]
            if load >= other.load:
                break
            heap[at] = other
            at = parent
        heap[at] = element

    def poll(self) -> Element:
        """Remove an element of the least load, and return it."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        size = len(heap)
        if size:
            at, load = 0, last.load
            while at < size >> 1:
                child = 2 * at + 1
                other = heap[child]
                if child + 1 < size and other.load > heap[child + 1].load:
                    child += 1
                    other = heap[child]
                if load <= other.load:
                    break
                heap[at] = other
                at = child
            heap[at] = last
        return first
