"""The offsets that open transactions have committed, until their markers.

Kept by `groups`, changed by `offsets`, and asked by `transition`, which records the tombstone of an offset
that is only pending. (Kafka: OffsetMetadataManager.OpenTransactions)
"""

from collections import Counter
from collections.abc import Callable, Iterator

from broker.coordinator.group.messages import CommittedOffset
from broker.coordinator.group.records import OffsetKey


class PendingOffsets:
    """The offsets of open transactions by producer id; a later one of the same partition replaces the
    earlier.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._producers: dict[str, Counter[OffsetKey]] = {}
        """By group, the number of producers with an offset for each partition."""

    @property
    def is_empty(self) -> bool:
        return not self._producers

    def add(self, producer_id: int, place: OffsetKey, committed: CommittedOffset) -> None:
        pending = self._by_producer.setdefault(producer_id, {})
        if place not in pending:
            self._producers.setdefault(place.group_id, Counter())[place] += 1
        pending[place] = committed

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset for this partition."""
        places = self._producers.get(group_id)
        return places is not None and OffsetKey(group_id, topic, partition) in places

    def partitions_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions for which open transactions have offsets of a group."""
        for place in list(self._producers.get(group_id, ())):
            yield place.topic, place.partition

    def group_ids(self) -> list[str]:
        """Return the groups for which open transactions have offsets."""
        return list(self._producers)

    def may_be_of(self, place: OffsetKey, topic_id: bytes) -> bool:
        """Return whether one of the offsets for a partition is one of this topic; see CommittedOffset."""
        pending = (each.get(place) for each in self._by_producer.values())
        return any(each is not None and each.may_be_of(topic_id) for each in pending)

    def drop(self, place: OffsetKey) -> None:
        """Remove the offsets of all producers for a partition, because a tombstone was written."""
        if self.has(place.group_id, place.topic, place.partition):
            self._forget(place)
            for pending in self._by_producer.values():
                pending.pop(place, None)

    def _forget(self, place: OffsetKey) -> None:
        places = self._producers[place.group_id]
        del places[place]
        if not places:
            del self._producers[place.group_id]

    def end(
        self, producer_id: int, is_wanted: Callable[[str], bool]
    ) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Remove and return the producer's offsets of the groups that are wanted."""
        pending = self._by_producer.get(producer_id, {})
        ended = [(place, offset) for place, offset in pending.items() if is_wanted(place.group_id)]
        for place, _ in ended:
            del pending[place]
            places = self._producers[place.group_id]
            places[place] -= 1
            if not places[place]:
                self._forget(place)
        if not pending:
            self._by_producer.pop(producer_id, None)
        return ended
