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
        self._skipped: dict[Place, set[int]] = {}
        self._committed: dict[Place, int] = {}

    def delivered(self, place: Place, first: int, after: int) -> None:
        """A member was given these records, up to the one before `after`: before an offset is committed."""
        with self._lock:
            self.delivered_count += after - first
            due = self._next.get(place, 0)
            skipped = self._skipped.setdefault(place, set())
            skipped.update(range(due, first))
            # What another member was given may be told late, and a record may be given again.
            skipped.difference_update(range(first, min(after, due)))
            self._next[place] = max(due, after)

    def committed(self, offsets: Mapping[Place, int]) -> None:
        """The broker has acknowledged these offsets."""
        with self._lock:
            self.commits += 1
            for place, offset in offsets.items():
                self._committed[place] = max(offset, self._committed.get(place, 0))

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

    def skipped(self) -> dict[Place, set[int]]:
        """Return a copy of the offsets that were left out so far, of records and of what is none."""
        with self._lock:
            return {place: set(offsets) for place, offsets in self._skipped.items()}

    def check_deliveries(
        self, topic: str, promised: Promised, starts: Mapping[int, int], before: Mapping[Place, set[int]]
    ) -> list[str]:
        """Find acknowledged records that the group skipped, now and `before`; each is found once.

        `starts`: each partition's first offset. Two members tell at different times what they were given, so
        what one of them was given and has not told yet is no skipped record.
        """
        found = []
        with self._lock:
            for place in [place for place in self._skipped if place.topic == topic]:
                acknowledged = promised.by_partition.get(place.partition, {})
                start, now = starts.get(place.partition, 0), self._skipped[place]
                both = now & before.get(place, set())
                skipped = [offset for offset in both if offset >= start and offset in acknowledged]
                if skipped:
                    where = f"{topic}-{place.partition}"
                    found.append(
                        f"{self.name}: {len(skipped)} records of {where} were skipped, first {min(skipped)}"
                    )
                # A record may be delivered before its producer hears of it: what is newer is looked at again.
                newest = max(acknowledged, default=-1)
                now -= {offset for offset in both if offset <= newest or offset < start}
        return found

    def behind(self, topic: str, promised: Promised) -> int:
        """Return how many acknowledged records lie after the last that a member was given."""
        with self._lock:
            return sum(
                offset >= self._next.get(Place(topic, partition), 0)
                for partition, offsets in promised.by_partition.items()
                for offset in offsets
            )
