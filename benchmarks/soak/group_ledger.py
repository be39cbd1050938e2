"""What a consumer group was given and what it committed, and whether that fits the acknowledged records.

A group is to be given every record at least once, and a committed offset never goes back. Knows no client.
"""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.soak.ledger import Promised


class Place(NamedTuple):
    topic: str
    partition: int


class GroupLedger:
    """The deliveries and commits of one group. Its methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.delivered_count = 0
        self.commits = 0
        self._lock = threading.Lock()
        self._next: dict[Place, int] = {}
        self._gaps: dict[Place, list[range]] = {}
        self._committed: dict[Place, int] = {}

    def delivered(self, place: Place, offset: int) -> None:
        """A member was given this record: before its offset is committed."""
        with self._lock:
            self.delivered_count += 1
            due = self._next.get(place, 0)
            if offset > due:
                self._gaps.setdefault(place, []).append(range(due, offset))
            self._next[place] = max(due, offset + 1)

    def committed(self, offsets: Mapping[Place, int]) -> None:
        """The broker has acknowledged these offsets."""
        with self._lock:
            self.commits += 1
            for place, offset in offsets.items():
                self._committed[place] = max(offset, self._committed.get(place, 0))

    def places(self) -> list[Place]:
        with self._lock:
            return sorted(self._committed)

    def promised_commits(self) -> dict[Place, int]:
        """Return a copy: take it before asking the broker."""
        with self._lock:
            return dict(self._committed)

    def check_commits(self, promised: Mapping[Place, int], found: Mapping[Place, int]) -> list[str]:
        return [
            f"{self.name}: {place.topic}-{place.partition} is committed at {found.get(place, -1)}, "
            f"but {offset} was acknowledged"
            for place, offset in sorted(promised.items())
            if found.get(place, -1) < offset
        ]

    def check_deliveries(self, topic: str, promised: Promised, starts: Mapping[int, int]) -> list[str]:
        """Find acknowledged records that the group skipped. `starts`: each partition's first offset."""
        found = []
        with self._lock:
            for place in [place for place in self._gaps if place.topic == topic]:
                acknowledged = promised.by_partition.get(place.partition, {})
                start = starts.get(place.partition, 0)
                skipped = [
                    offset
                    for gap in self._gaps[place]
                    for offset in gap
                    if offset >= start and offset in acknowledged
                ]
                if skipped:
                    where = f"{topic}-{place.partition}"
                    found.append(
                        f"{self.name}: {len(skipped)} records of {where} were skipped, first {skipped[0]}"
                    )
                # A record may be delivered before its producer hears of it: what is newer is looked at again.
                newest = max(acknowledged, default=-1)
                self._gaps[place] = [gap for gap in self._gaps[place] if gap.stop > newest]
        return found

    def behind(self, topic: str, promised: Promised) -> int:
        """Return how many acknowledged records lie after the last that a member was given."""
        with self._lock:
            return sum(
                offset >= self._next.get(Place(topic, partition), 0)
                for partition, offsets in promised.by_partition.items()
                for offset in offsets
            )
