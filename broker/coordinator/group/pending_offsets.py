"""The offsets that open transactions have committed, until their markers.

Kept by `groups`, changed by `offsets`, and asked by `transition`, which records the tombstone of an offset
that is only pending. (Kafka: OffsetMetadataManager.OpenTransactions)
"""

from collections.abc import Callable, Iterator

from broker.coordinator.group.messages import CommittedOffset
from broker.coordinator.group.records import OffsetKey
from broker.coordinator.pending import Pending


class PendingOffsets:
    """The offsets of open transactions; see Pending. By group, too."""

    def __init__(self) -> None:
        self._pending = Pending[OffsetKey, CommittedOffset]()
        self._places: dict[str, dict[OffsetKey, None]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._places

    def add(self, producer_id: int, place: OffsetKey, committed: CommittedOffset | None) -> None:
        """Note an offset; None: one that a later record supersedes."""
        self._pending.add(producer_id, place, committed)
        self._places.setdefault(place.group_id, {})[place] = None

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has committed an offset for this partition, even if a later
        record supersedes it.
        """
        places = self._places.get(group_id)
        return places is not None and OffsetKey(group_id, topic, partition) in places

    def partitions_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions for which open transactions have offsets of a group."""
        for place in list(self._places.get(group_id, ())):
            yield place.topic, place.partition

    def group_ids(self) -> list[str]:
        """Return the groups for which open transactions have offsets."""
        return list(self._places)

    def count(self, group_id: str) -> int:
        """Return for how many partitions open transactions have offsets of a group."""
        return len(self._places.get(group_id, ()))

    def of(self, place: OffsetKey) -> Iterator[CommittedOffset]:
        """Yield the offsets that may still be committed for a partition."""
        return self._pending.of(place)

    def may_be_of(self, place: OffsetKey, topic_id: bytes) -> bool:
        """Return whether one of the offsets for a partition is one of this topic; see CommittedOffset."""
        return any(each.may_be_of(topic_id) for each in self.of(place))

    def supersede(self, place: OffsetKey) -> None:
        """Forget the offsets of all producers for a partition, because a later one was committed."""
        self._pending.supersede(place)

    def drop(self, place: OffsetKey) -> None:
        """Remove the offsets of all producers for a partition, because a tombstone was written."""
        self._pending.drop(place)
        self._forget(place)

    def end(
        self, producer_id: int, is_wanted: Callable[[str], bool], *, is_commit: bool
    ) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Remove the producer's offsets of the groups that are wanted. Return those that count from now
        on.
        """
        found = []
        for place in self._pending.keys_of(producer_id):
            if is_wanted(place.group_id):
                committed = self._pending.end(producer_id, place, is_commit=is_commit)
                if committed is not None:
                    found.append((place, committed))
                self._forget(place)
        return found

    def _forget(self, place: OffsetKey) -> None:
        places = self._places.get(place.group_id)
        if places is not None and place not in self._pending:
            places.pop(place, None)
            if not places:
                del self._places[place.group_id]
