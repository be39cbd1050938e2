"""The offsets that open transactions have committed, until their markers.

Kept by `groups`, changed by `offsets`, and asked by `transition`, which records the tombstone of an offset
that is only pending. (Kafka: OffsetMetadataManager.OpenTransactions)
"""

from collections.abc import Callable, Iterator

from broker.coordinator.group.messages import CommittedOffset
from broker.coordinator.group.records import OffsetKey


class PendingOffsets:
    """The offsets of open transactions by producer id; a later one of the same partition replaces the
    earlier.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._producers: dict[str, dict[OffsetKey, set[int]]] = {}
        """By group, the producers with an offset for each partition."""

    @property
    def is_empty(self) -> bool:
        return not self._producers

    def add(self, producer_id: int, place: OffsetKey, committed: CommittedOffset) -> None:
        self._by_producer.setdefault(producer_id, {})[place] = committed
        self._producers.setdefault(place.group_id, {}).setdefault(place, set()).add(producer_id)

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

    def count(self, group_id: str) -> int:
        """Return for how many partitions open transactions have offsets of a group."""
        return len(self._producers.get(group_id, ()))

    def of(self, place: OffsetKey) -> Iterator[CommittedOffset]:
        """Yield the offsets that open transactions have for a partition."""
        for each in self._producers.get(place.group_id, {}).get(place, ()):
            yield self._by_producer[each][place]

    def may_be_of(self, place: OffsetKey, topic_id: bytes) -> bool:
        """Return whether one of the offsets for a partition is one of this topic; see CommittedOffset."""
        return any(each.may_be_of(topic_id) for each in self.of(place))

    def drop(self, place: OffsetKey) -> None:
        """Remove the offsets of all producers for a partition, because a tombstone was written."""
        for producer_id in list(self._producers.get(place.group_id, {}).get(place, ())):
            self._take(producer_id, place)

    def _take(self, producer_id: int, place: OffsetKey) -> None:
        pending, places = self._by_producer[producer_id], self._producers[place.group_id]
        del pending[place]
        places[place].remove(producer_id)
        if not pending:
            del self._by_producer[producer_id]
        if not places[place]:
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
            self._take(producer_id, place)
        return ended
