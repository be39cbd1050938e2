"""The lag of consumer groups over the last day: an hour by ten seconds, a day by five minutes.

Filled by live.broadcaster, read by GET /groups:lag. Bounded: the total, and the groups with the largest lag,
with at most 648 numbers each; a group that is no longer among them is forgotten. Pure: time is an argument.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final

from broker.common.slices import Steps
from broker.controller.rows.topics import GroupRow

TIERS: Final = ((10_000, 360), (300_000, 288))
"""Milliseconds between samples, and the number of samples kept."""

MAX_GROUPS: Final = 500
"""Groups with a history of their own; about 5 kB each."""

UNKNOWN: Final = -1
"""No lag is known at a time of the history: the group did not exist, or had no committed offset."""


_MINUTE: Final = 6
"""Samples of a minute, and of six minutes."""
_SPAN: Final = 36


class _Tier:
    """Samples of one step: times, and values by group id, "" for the total. All have the same length."""

    def __init__(self, step_ms: int, kept: int) -> None:
        self.step_ms = step_ms
        self._kept = kept
        self.times = array("q")
        self.values: dict[str, array[int]] = {"": array("q")}

    def is_due(self, now_ms: int) -> bool:
        return not self.times or now_ms - self.times[-1] >= self.step_ms

    def add(self, lags: dict[str, int], now_ms: int) -> None:
        for gone in self.values.keys() - lags.keys():
            del self.values[gone]
        for name, lag in lags.items():
            if name not in self.values:
                self.values[name] = array("q", [UNKNOWN]) * len(self.times)
            self.values[name].append(lag)
        self.times.append(now_ms)
        if len(self.times) > self._kept:
            del self.times[0]
            for values in self.values.values():
                del values[0]


class LagHistory:
    def __init__(self) -> None:
        self._tiers = [_Tier(step_ms, kept) for step_ms, kept in TIERS]

    def is_due(self, now_ms: int) -> bool:
        return self._tiers[0].is_due(now_ms)

    def add(self, rows: Iterable[GroupRow], now_ms: int) -> None:
        """Add a sample of all groups, whose rows are given."""
        known = {row.group_id: row.lag for row in rows if row.lag is not None}
        total = sum(known.values())
        if len(known) > MAX_GROUPS:
            largest = sorted(known, key=lambda name: (-known[name], name))[:MAX_GROUPS]
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
            return {"at_ms": [], "lag": []}
        since = tier.times[-1] - seconds * 1000
        first = next(at for at, time_ms in enumerate(tier.times) if time_ms >= since)
        lags = [None if lag == UNKNOWN else lag for lag in values[first:]]
        return {"at_ms": list(tier.times[first:]), "lag": lags}

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
