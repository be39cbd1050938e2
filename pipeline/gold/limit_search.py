"""Finds the smallest limit that one name's seconds keep to, by simulation with the broker's own quotas.

Used by `advice`. A second can only be throttled near a time in which the use of some ten seconds exceeds the
limit: only such seconds are simulated, and of many a sample, so that the work for a name is bounded.
"""

from array import array
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from broker.simulation.arrivals import PARTS
from broker.simulation.scenario import ClientLoad
from broker.simulation.trial import NO_BOUNDS, Bounds, try_limit
from pipeline.gold.demand import Key

LOOK_BACK_S: Final = (10, 11)
"""A quota's rate is that of the last ten to eleven seconds."""

LEAD_S: Final = 14
"""Seconds simulated before and after those that may be throttled: then the quota's windows are full."""

BLOCK_S: Final = 120
"""A sample consists of such blocks of the day."""

MOST_SECONDS: Final = 600
"""The most active seconds of a sample in a search. The broker's code takes about 60 us for one."""

MOST_SECONDS_AT_LAST: Final = 3_600
"""The same for the limit that was found."""

RANGE: Final = 1024.0
"""The least limit of a search is that much below one that throttles nothing."""

PRECISION: Final = 1.02
"""The largest ratio of the limit found to one that is too small."""


class Outcome(NamedTuple):
    """What a limit would have done in the whole time: throttled requests, the sum of the throttles and the
    longest one.
    """

    requests: float = 0.0
    ms: float = 0.0
    longest_ms: int = 0
    is_within: bool = True


class LimitSearch:
    """The seconds of one name: `used` and `requests` of each second of the day, from the first on."""

    def __init__(self, key: Key, used: np.ndarray, requests: np.ndarray) -> None:
        self._key = key
        self._used = np.where(requests > 0, used, 0)
        self._requests = requests
        self._rates = self._used / key.unit
        self._levels = self._highest_rates()
        self.total = int(requests.sum())

    @property
    def peak(self) -> float:
        """The highest mean of ten consecutive seconds, in the key's unit per second."""
        return float(_sums(self._rates, LOOK_BACK_S[0]).max()) / LOOK_BACK_S[0]

    def smallest(self, bounds: Bounds) -> float:
        """Return the smallest limit that keeps the bounds, at most two percent more."""
        high = float(self._levels.max())
        low = high / RANGE
        while high / low > PRECISION:
            middle = sqrt(low * high)
            if self.outcome(middle, bounds, MOST_SECONDS).is_within:
                high = middle
            else:
                low = middle
        return high

    def outcome(
        self, limit: float, bounds: Bounds = NO_BOUNDS, most_seconds: int = MOST_SECONDS_AT_LAST
    ) -> Outcome:
        """Simulate the limit, up to the first violation of the bounds."""
        busy = self._busy(limit)
        if not len(busy):
            return Outcome()
        if len(busy) <= most_seconds:
            return self._simulated(busy, limit, bounds)
        # The highest rates decide on the longest wait, and are in few samples.
        highest = self._simulated(self._highest(busy), limit, Bounds(longest_ms=bounds.longest_ms))
        if not highest.is_within:
            return highest
        chosen = _sample(busy, most_seconds)
        part = int(self._requests[chosen].sum()) / int(self._requests[busy].sum())
        sample = self._simulated(chosen, limit, Bounds(bounds.requests * part, bounds.longest_ms))
        longest_ms = max(highest.longest_ms, sample.longest_ms)
        return Outcome(sample.requests / part, sample.ms / part, longest_ms, sample.is_within)

    def _simulated(self, seconds: np.ndarray, limit: float, bounds: Bounds) -> Outcome:
        load = ClientLoad(
            "u",
            "",
            self._key.kind,
            array("L", seconds.tolist()),
            array("L", self._requests[seconds].tolist()),
            array("Q", self._used[seconds].tolist()),
        )
        found = try_limit(load, limit, bounds)
        return Outcome(found.throttled, found.throttled_ms, found.longest_ms, found.is_within)

    def _highest_rates(self) -> np.ndarray:
        """Return for each second the highest rate that a quota can measure in it.

        A second's requests come evenly, in parts, so the sum of ten seconds that begin within one is between
        those of whole seconds, and one part more.
        """
        sums = [_sums(self._rates, length) / length for length in LOOK_BACK_S]
        whole = np.maximum.reduce([*sums, *(np.append(0.0, each[:-1]) for each in sums)])
        parts = self._rates / np.clip(self._requests, 1, PARTS)
        largest = parts
        for back in range(1, LOOK_BACK_S[-1] + 1):
            largest = np.maximum(largest, np.append(np.zeros(back), parts[:-back]))
        # The margin is for sums of floats.
        levels: np.ndarray = (whole + largest / LOOK_BACK_S[0]) * (1 + 1e-9)
        return levels

    def _busy(self, limit: float) -> np.ndarray:
        """Return the active seconds that the limit may throttle, and those around them."""
        over = np.flatnonzero(self._levels > limit)
        if not len(over):
            return over
        # Throttles may go on until what exceeds the limit is repaid.
        debts = np.cumsum(self._rates - limit)
        repaid: np.ndarray = np.append(np.flatnonzero(debts <= np.minimum.accumulate(debts)), len(debts))
        ends = repaid[np.searchsorted(repaid, over)]
        changes: np.ndarray = np.zeros(len(debts) + 1, np.int64)
        np.add.at(changes, np.maximum(over - LEAD_S, 0), 1)
        np.add.at(changes, np.minimum(ends + LEAD_S, len(debts)), -1)
        return np.flatnonzero((np.cumsum(changes)[:-1] > 0) & (self._requests > 0))

    def _highest(self, busy: np.ndarray) -> np.ndarray:
        """Return the busy seconds around the highest rate."""
        at = int(self._levels.argmax())
        around: np.ndarray = busy[np.abs(busy - at) <= BLOCK_S]
        return around


def _sample(busy: np.ndarray, most_seconds: int) -> np.ndarray:
    """Return the busy seconds of some blocks, about so many; the same ones for the same seconds."""
    blocks, counts = np.unique(busy // BLOCK_S, return_counts=True)
    order = np.random.default_rng(0).permutation(len(blocks))
    chosen = blocks[order[np.cumsum(counts[order]) <= max(most_seconds, counts[order[0]])]]
    sample: np.ndarray = busy[np.isin(busy // BLOCK_S, chosen)]
    return sample


def _sums(values: np.ndarray, length: int) -> np.ndarray:
    """Return for each place the sum of it and the `length` - 1 before."""
    totals = np.cumsum(values)
    sums: np.ndarray = totals - np.append(np.zeros(length), totals[:-length])
    return sums
