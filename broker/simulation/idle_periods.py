"""Periods in which a limit cannot throttle, so that its clients' requests are counted and not simulated.

Used by `arrivals`. A limit over n windows of length w cannot be violated while the demand of its clients,
plus one request of every connection spread over the n - 1 windows that always count as seen, stays within
it. This follows from the schedules without simulation, so a day costs no more than the hours in which
limits are violated. The engine still simulates the `lead` before and after each busy stretch, and after a
throttle: then the windows hold their true values and no client is behind its schedule.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from broker.metrics.rate import Window
from broker.simulation.scenario import Piece

FOREVER: Final = 2**62
SPARE_WINDOWS: Final = 3
"""Windows beyond those of a rate, before and after a busy stretch."""


class ConnectionDemand(NamedTuple):
    """The demand of identical connections on one limit: units per second at a factor of 1, and units of one
    request of each.
    """

    pieces: Sequence[Piece]
    per_second: float
    at_once: float


class IdlePeriods:
    """The idle periods of one limit. `note_wait` reports clients that are throttled or behind their
    schedule.
    """

    def __init__(
        self, demands: Iterable[ConnectionDemand], bound: float, window: Window, burst_ms: int | None = None
    ) -> None:
        """Compute the periods. `burst_ms` is a token bucket's fill time, the most that it looks back."""
        seen_ms = max(window.samples - 1, 1) * window.window_ms
        if burst_ms is not None:
            seen_ms = min(seen_ms, burst_ms)
        window_us = window.window_ms * 1000
        self._lead_us = (window.samples + SPARE_WINDOWS) * window_us + (burst_ms or 0) * 1000
        self._busy_until_us = 0
        demands = list(demands)
        at_once = sum(demand.at_once for demand in demands)
        # The margin allows for rounding errors in sums of floats.
        spare = bound * (1 - 1e-9) - at_once * 1000 / seen_ms
        horizon_us = (window.samples + 1) * window_us if burst_ms is None else None
        stretches = _busy_stretches(demands, spare, seen_ms / 1000, self._lead_us, horizon_us)
        self._busy_starts = [start for start, _ in stretches]
        self._busy_ends = [end for _, end in stretches]

    def note_wait(self, until_us: int) -> None:
        """Record that a client is throttled, or behind its schedule, until `until_us`."""
        self._busy_until_us = max(self._busy_until_us, until_us + self._lead_us)

    def until(self, at_us: int) -> int:
        """Return the end of the idle period that `at_us` lies in; `at_us` itself outside of one."""
        if at_us < self._busy_until_us:
            return at_us
        index = bisect_right(self._busy_starts, at_us)
        if index and at_us < self._busy_ends[index - 1]:
            return at_us
        return self._busy_starts[index] if index < len(self._busy_starts) else FOREVER


def _busy_stretches(
    demands: Sequence[ConnectionDemand],
    spare: float,
    seen_seconds: float,
    lead_us: int,
    horizon_us: int | None,
) -> list[tuple[int, int]]:
    """Return the stretches in which the limit may be violated, widened by the lead, sorted and disjoint.

    A demand above `spare` is allowed for a while if no stretch of `horizon_us`, the time a rate looks back,
    contains more than `spare` times `seen_seconds`.
    """
    total = _TotalDemand(demands)
    found = total.stretches_over(spare)
    if horizon_us is not None:
        allowed = spare * seen_seconds
        found = [each for each in found if total.max_within(horizon_us, each) > allowed]
    return _joined([(max(start - lead_us, 0), end + lead_us) for start, end in found])


class _TotalDemand:
    """The sum of all demands as a step function: a rate per second from each time on."""

    def __init__(self, demands: Sequence[ConnectionDemand]) -> None:
        changes: dict[int, float] = {}
        for demand in demands:
            for piece in demand.pieces:
                rate = demand.per_second * piece.factor
                changes[piece.start_us] = changes.get(piece.start_us, 0.0) + rate
                changes[piece.end_us] = changes.get(piece.end_us, 0.0) - rate
        self._times = sorted(changes)
        self._rates = list(accumulate(changes[at_us] for at_us in self._times))
        lengths = (later - at_us for at_us, later in pairwise(self._times))
        amounts = (rate * length / 1e6 for rate, length in zip(self._rates, lengths, strict=False))
        self._sums = list(accumulate(amounts, initial=0.0))

    def stretches_over(self, spare: float) -> list[tuple[int, int]]:
        return _joined(
            [
                (at_us, later)
                for (at_us, later), rate in zip(pairwise(self._times), self._rates, strict=False)
                if rate > spare
            ]
        )

    def max_within(self, length_us: int, stretch: tuple[int, int]) -> float:
        """Return the highest demand within any `length_us` that begins or ends in the stretch."""
        start_us, end_us = stretch
        first = bisect_left(self._times, start_us - length_us)
        last = bisect_right(self._times, end_us + length_us)
        near = self._times[first:last]
        # The demand within a moving window is highest where one of its ends meets a step.
        ends = {*near, *(at_us + length_us for at_us in near)}
        return max(
            self._until(end) - self._until(end - length_us)
            for end in ends
            if start_us <= end <= end_us + length_us
        )

    def _until(self, at_us: int) -> float:
        index = bisect_right(self._times, at_us) - 1
        if index < 0:
            return 0.0
        return self._sums[index] + self._rates[index] * (at_us - self._times[index]) / 1e6


def _joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in stretches:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
