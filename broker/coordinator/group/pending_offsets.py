"""Offsets that were committed in transactions whose outcome is open. (Kafka: OpenTransactions and
pendingTransactionalOffsets of OffsetMetadataManager)

Owned by the coordinator. They take effect with the commit marker of the transaction.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from broker.coordinator.group.messages import CommittedOffset


class _Place(NamedTuple):
    group_id: str
    topic: str
    partition: int


class PendingOffset(NamedTuple):
    """An offset of a group that takes effect now."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset


class PendingOffsets:
    """The pending offsets by producer id; a later one of the same partition replaces the earlier."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_Place, CommittedOffset]] = {}
        self._producers: Counter[_Place] = Counter()

    def add(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        place = _Place(group_id, topic, partition)
        pending = self._by_producer.setdefault(producer_id, {})
        if place not in pending:
            self._producers[place] += 1
        pending[place] = committed

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset for this partition."""
        return bool(self._producers) and _Place(group_id, topic, partition) in self._producers

    def end(self, producer_id: int, is_wanted: Callable[[str], bool]) -> list[PendingOffset]:
        """Remove and return the producer's offsets of the groups that are wanted."""
        pending = self._by_producer.get(producer_id, {})
        ended = [
            PendingOffset(*place, offset) for place, offset in pending.items() if is_wanted(place.group_id)
        ]
        for group_id, topic, partition, _ in ended:
            place = _Place(group_id, topic, partition)
            del pending[place]
            self._producers[place] -= 1
            if not self._producers[place]:
                del self._producers[place]
        if not pending:
            self._by_producer.pop(producer_id, None)
        return ended
