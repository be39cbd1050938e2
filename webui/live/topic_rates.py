"""How fast topics are written and read, and how many groups read them.

Used by the list of topics and by the live table. Rates come of the counts of the topics' rows: each row is
compared with the one of some seconds ago. So nothing is counted while no page and no program reads topics,
and the first reading has no rates. Pure: the time at which the rows were read is an argument.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from broker.controller.rows.topics import TopicCounts, TopicRow
from broker.views.topics import TopicViews

OVER_MS: Final = 10_000
"""The least time of a rate once there are rows so old; ours, as long as a sample of the groups' lag."""

LEAST_MS: Final = 500
"""The least time of the first rate; ours. Over less, one batch would look like much."""

FORGOTTEN_MS: Final = 120_000
"""A rate of longer is no rate of now; ours."""

COUNTED_MS: Final = 10_000
"""How long the number of groups stays as it was counted; ours."""


class _Seen(NamedTuple):
    at_ms: int
    counts: TopicCounts


class TopicRates:
    def __init__(self, views: TopicViews) -> None:
        self._views = views
        self._older: dict[str, _Seen] = {}
        self._newer: dict[str, _Seen] = {}
        self._groups: Counter[str] | None = None
        self._counted_ms = -COUNTED_MS
        self._cleaned_ms = 0

    def rows(self, now_ms: int) -> Iterator[TopicRow | None]:
        """Yield the topics as the views do, with their rates and groups."""
        if now_ms - self._counted_ms >= COUNTED_MS:
            yield from self._count(now_ms)
        for row in self._views.each_topic():
            yield row and self.with_rates(row, now_ms)
        if now_ms - self._cleaned_ms >= FORGOTTEN_MS:
            self._cleaned_ms = now_ms
            for seen in (self._older, self._newer):
                for name in [name for name, each in seen.items() if now_ms - each.at_ms >= FORGOTTEN_MS]:
                    del seen[name]
                yield None

    def with_rates(self, row: TopicRow, now_ms: int) -> TopicRow:
        """Return the row with its rates and groups, as far as they are known."""
        groups = None if self._groups is None else self._groups[row.name]
        if row.counts is None:
            return replace(row, groups=groups)
        before = self._before(row.name, _Seen(now_ms, row.counts))
        passed = 0 if before is None else now_ms - before.at_ms
        if before is None or not LEAST_MS <= passed < FORGOTTEN_MS:
            return replace(row, groups=groups)
        rates = [
            None if old is None or new is None else (new - old) * 1_000 / passed
            for old, new in zip(before.counts, row.counts, strict=True)
        ]
        return replace(
            row,
            groups=groups,
            records_in_per_s=rates[0],
            bytes_in_per_s=rates[1],
            bytes_out_per_s=rates[2],
        )

    def _before(self, name: str, now: _Seen) -> _Seen | None:
        """Return what a topic's rate compares with, and keep what later ones do."""
        newer = self._newer.get(name)
        if newer is None or now.counts.records_in < newer.counts.records_in:
            # A topic that was deleted and made again counts from 0.
            self._newer[name] = now
            self._older.pop(name, None)
            return None
        if now.at_ms - newer.at_ms >= OVER_MS:
            self._older[name], self._newer[name] = newer, now
        return self._older.get(name, newer)

    def _count(self, now_ms: int) -> Iterator[None]:
        """Count the groups of each topic."""
        every = self._views.topics_of_groups()
        if every is None:
            return
        self._counted_ms = now_ms
        counted: Counter[str] = Counter()
        for topics in every:
            counted.update(iter(topics or ()))  # a mapping would be taken for numbers
            yield None
        self._groups = counted
