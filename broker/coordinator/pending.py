"""What open transactions have written for keys of __consumer_offsets, until their markers.

Used by `offsets_log` with bytes, and by `group.pending_offsets` with what they say. The order of the records
decides, not that of the markers: of two records of a key, the later one wins whichever transaction ends
first. (Kafka: OffsetMetadataManager.OpenTransactions, and its comparison of recordOffset)
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Pending(Generic[K, V]):
    """The last value of each producer for each key. A value that a later record supersedes is forgotten, but
    its key stays pending until the producer's marker.
    """

    __slots__ = ("_by_producer", "_producers")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[K, V | None]] = {}
        """None for a value that is superseded."""
        self._producers: dict[K, dict[int, None]] = {}
        """By key, the producers in the order of their records."""

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __contains__(self, key: object) -> bool:
        return key in self._producers

    def __iter__(self) -> Iterator[tuple[int, K, V | None]]:
        """Yield all records with their producers; those of a key in their order, None if superseded."""
        for key, producers in self._producers.items():
            for producer_id in producers:
                yield producer_id, key, self._by_producer[producer_id][key]

    def add(self, producer_id: int, key: K, value: V | None) -> None:
        """Note a written record of an open transaction; None for one that is superseded already."""
        producers = self._producers.setdefault(key, {})
        producers.pop(producer_id, None)
        producers[producer_id] = None
        self._by_producer.setdefault(producer_id, {})[key] = value

    def of(self, key: K) -> Iterator[V]:
        """Yield the values that may still be committed for a key."""
        for producer_id in self._producers.get(key, ()):
            value = self._by_producer[producer_id][key]
            if value is not None:
                yield value

    def supersede(self, key: K) -> None:
        """Forget all values of a key, because a later record outside transactions was written."""
        for producer_id in self._producers.get(key, ()):
            self._by_producer[producer_id][key] = None

    def drop(self, key: K) -> None:
        """Remove a key, because a tombstone was written."""
        for producer_id in self._producers.pop(key, ()):
            self._remove(producer_id, key)

    def keys_of(self, producer_id: int) -> list[K]:
        """Return the keys that the producer's transaction has written."""
        return list(self._by_producer.get(producer_id, ()))

    def end(self, producer_id: int, key: K, *, is_commit: bool) -> V | None:
        """Remove the producer's record of a key, because of its marker. Return the value if it counts from
        now on: then earlier records of other open transactions are superseded.
        """
        producers = self._producers[key]
        value = self._by_producer[producer_id][key]
        counts = is_commit and value is not None
        if counts:
            for earlier in producers:
                if earlier == producer_id:
                    break
                self._by_producer[earlier][key] = None
        del producers[producer_id]
        if not producers:
            del self._producers[key]
        self._remove(producer_id, key)
        return value if counts else None

    def _remove(self, producer_id: int, key: K) -> None:
        pending = self._by_producer[producer_id]
        del pending[key]
        if not pending:
            del self._by_producer[producer_id]
