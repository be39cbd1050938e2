"""The lag of consumer groups over the last day: an hour by ten seconds, a day by five minutes; and how fast
it grows.

Filled by live.broadcaster, read by the lists of groups and by GET /groups:lag. Bounded: the total, and the
groups with the largest lag, with at most 1,296 numbers each; a group that is no longer among them is
forgotten. Pure: time is an argument.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.controller.rows.topics import GroupRow

TIERS: Final = ((10_000, 360), (300_000, 288))
"""Milliseconds between samples, and the number of samples kept."""

MAX_GROUPS: Final = 500
"""Groups with a history of their own; about 10 kB each."""

TREND_SAMPLES: Final = 60
"""Samples of ten seconds that a trend is made of; ours."""

LEAST_SAMPLES: Final = 3
"""The least number of samples of a trend; ours."""

UNKNOWN: Final = -1
"""No lag is known at a time of the history: the group did not exist, or had no committed offset."""


_MINUTE: Final = 6
"""Samples of a minute, and of six minutes."""
_SPAN: Final = 36


class _Tier:
    """Samples of one step: times, and by group id, "" for the total, the lag and the lost records in it. All
    have the same length.
    """

    def __init__(self, step_ms: int, kept: int) -> None:
        self.step_ms = step_ms
        self._kept = kept
        self.times = array("q")
        self.values: dict[str, array[int]] = {"": array("q")}
        self.lost: dict[str, array[int]] = {"": array("q")}

    def is_due(self, now_ms: int) -> bool:
        return not self.times or now_ms - self.times[-1] >= self.step_ms

    def add(self, lags: dict[str, tuple[int, int]], now_ms: int) -> None:
        for gone in self.values.keys() - lags.keys():
            del self.values[gone], self.lost[gone]
        for name, (lag, lost) in lags.items():
            if name not in self.values:
                self.values[name] = array("q", [UNKNOWN]) * len(self.times)
                self.lost[name] = self.values[name][:]
            self.values[name].append(lag)
            self.lost[name].append(lost)
        self.times.append(now_ms)
        if len(self.times) > self._kept:
            del self.times[0]
            for values in (*self.values.values(), *self.lost.values()):
                del values[0]


class LagHistory:
    def __init__(self) -> None:
        self._tiers = [_Tier(step_ms, kept) for step_ms, kept in TIERS]
        self._trends: dict[str, tuple[float, int] | None] = {}
        """Those that were asked for since the last sample."""

    def is_due(self, now_ms: int) -> bool:
        return self._tiers[0].is_due(now_ms)

    def add(self, rows: Iterable[GroupRow], now_ms: int) -> None:
        """Add a sample of all groups, whose rows are given."""
        known = {
            row.group_id: (row.lag, UNKNOWN if row.lost is None else row.lost)
            for row in rows
            if row.lag is not None
        }
        total = sum(lag for lag, _ in known.values()), sum(max(lost, 0) for _, lost in known.values())
        self._trends.clear()
        if len(known) > MAX_GROUPS:
            largest = sorted(known, key=lambda name: (-known[name][0], name))[:MAX_GROUPS]
            known = {name: known[name] for name in largest}
        for tier in self._tiers:
            if tier.is_due(now_ms):
                tier.add({"": total} | known, now_ms)

    def columns(self, group: str, seconds: int) -> dict[str, list[Any]]:
        """Return times and lags of the last `seconds`, oldest first, of a group, "" for all together. A lag
        is None where it is not known; a group without a history has no samples.
        """
        tier = next((each for each in self._tiers if self._reach_ms(each) >= seconds * 1000), self._tiers[-1])
        values = tier.values.get(group)
        if values is None or not tier.times:
            return {"at_ms": [], "lag": [], "lost": []}
        since = tier.times[-1] - seconds * 1000
        first = next(at for at, time_ms in enumerate(tier.times) if time_ms >= since)
        lags, lost = (
            [None if each == UNKNOWN else each for each in column[first:]]
            for column in (values, tier.lost[group])
        )
        return {"at_ms": list(tier.times[first:]), "lag": lags, "lost": lost}

    def with_trends(self, rows: Iterable[GroupRow | None]) -> Iterator[GroupRow | None]:
        """Yield the rows with their trends."""
        return (row and self.with_trend(row) for row in rows)

    def with_trend(self, row: GroupRow) -> GroupRow:
        name = row.group_id
        if name not in self._trends:
            self._trends[name] = self._trend(name)
        trend = self._trends[name]
        return row if trend is None else replace(row, lag_per_s=trend[0], lag_trend_s=trend[1])

    def _trend(self, group: str) -> tuple[float, int] | None:
        """Return how many records a second a group falls behind, negative while it catches up: between the
        first and the last third of the last samples; and the seconds from the first of them to the last. None
        if there are too few.

        Records that are lost leave the lag at once when the group goes on behind them. It has not read them,
        so they are no progress.
        """
        tier = self._tiers[0]
        lags = tier.values.get(group, array("q"))[-TREND_SAMPLES:]
        lost, times = tier.lost.get(group, array("q"))[-TREND_SAMPLES:], tier.times[-TREND_SAMPLES:]
        passed = before = 0
        known: list[tuple[int, int]] = []
        for lag, gone, at_ms in zip(lags, lost, times, strict=False):
            if lag == UNKNOWN:
                continue
            passed += max(before - gone, 0) if gone != UNKNOWN else 0
            before = max(gone, 0)
            known.append((at_ms, lag + passed))
        if len(known) < LEAST_SAMPLES:
            return None
        third = len(known) // 3
        (from_ms, first), (to_ms, last) = _mean(known[:third]), _mean(known[-third:])
        if to_ms <= from_ms:
            return None
        return (last - first) * 1_000 / (to_ms - from_ms), (known[-1][0] - known[0][0]) // 1_000

    def falling_behind(self) -> Steps[list[tuple[str, int, float]]]:
        """Return group, lag and growth in records a second of the groups whose lag grows: all of the last
        minute is above all of a minute before, up to five minutes earlier. The fastest first; one group in
        each step.
        """
        tier = self._tiers[0]
        found = []
        for group, values in list(tier.values.items()):
            yield
            known = [lag for lag in values[-_SPAN:] if lag != UNKNOWN] if group else []
            if len(known) < 2 * _MINUTE:
                continue
            before, now = known[:_MINUTE], known[-_MINUTE:]
            if min(now) > max(before):
                apart_s = (len(known) - _MINUTE) * tier.step_ms / 1000
                growth = (sum(now) - sum(before)) / _MINUTE / apart_s
                found.append((group, known[-1], growth))
        return sorted(found, key=lambda each: (-each[2], each[0]))

    def _reach_ms(self, tier: _Tier) -> int:
        return tier.step_ms * dict(TIERS)[tier.step_ms]


def _mean(samples: list[tuple[int, int]]) -> tuple[float, float]:
    times, lags = zip(*samples, strict=True)
    return sum(times) / len(times), sum(lags) / len(lags)
