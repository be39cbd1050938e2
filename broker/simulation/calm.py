"""Stretches of time in which nobody under a limit can be held, so that their requests need only be counted.

Asked by `dues`. A limit over n windows of w cannot be broken while what its clients want, and one request of
every connection spread over the n - 1 windows that always count as seen, stay within it together. That is
proved of the schedules and not tried, so a day costs no more than the hours in which limits are broken.
Played all the same is what lies within `lead` of a stretch that is not calm, and what follows a wait: then
the windows hold what they would hold, and nobody is behind.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.metrics.window import Window
from broker.simulation.scenario import Piece

FOREVER: Final = 2**62
SPARE_WINDOWS: Final = 3
"""Windows beyond those that a rate looks back on, before and after what must be played."""


class Demand(NamedTuple):
    """What connections alike ask of one limit: units per second at a factor of 1, and the units of one
    request of each of them.
    """

    pieces: Sequence[Piece]
    per_second: float
    at_once: float


class Calm:
    """The calm of one limit. `note_wait` tells it of clients that were held or are behind."""

    __slots__ = ("_busy_ends", "_busy_starts", "_lead_us", "_restless_until_us")

    def __init__(
        self, demands: Iterable[Demand], bound: float, window: Window, burst_ms: int | None = None
    ) -> None:
        """`burst_ms` is of a token bucket, which looks back no longer than it takes to fill."""
        seen_ms = max(window.samples - 1, 1) * window.window_ms
        if burst_ms is not None:
            seen_ms = min(seen_ms, burst_ms)
        window_us = window.window_ms * 1000
        self._lead_us = (window.samples + SPARE_WINDOWS) * window_us + (burst_ms or 0) * 1000
        self._restless_until_us = 0
        stretches = _busy_stretches(list(demands), bound, seen_ms / 1000, self._lead_us)
        self._busy_starts = [start for start, _ in stretches]
        self._busy_ends = [end for _, end in stretches]

    def note_wait(self, until_us: int) -> None:
        """Somebody waits, or is behind what it wanted, until then."""
        self._restless_until_us = max(self._restless_until_us, until_us + self._lead_us)

    def until(self, at_us: int) -> int:
        """How long nothing need be played from `at_us` on; `at_us` itself if it must be."""
        if at_us < self._restless_until_us:
            return at_us
        index = bisect_right(self._busy_starts, at_us)
        if index and at_us < self._busy_ends[index - 1]:
            return at_us
        return self._busy_starts[index] if index < len(self._busy_starts) else FOREVER


def _busy_stretches(
    demands: Sequence[Demand], bound: float, seen_seconds: float, lead_us: int
) -> list[tuple[int, int]]:
    """Where the limit might be broken, widened by the lead, in order and apart from each other."""
    room = bound - sum(demand.at_once for demand in demands) / seen_seconds
    steps = sorted(
        step
        for demand in demands
        for piece in demand.pieces
        for step in (
            (piece.start_us, demand.per_second * piece.factor),
            (piece.end_us, -demand.per_second * piece.factor),
        )
    )
    # Sums of floats that should come out at zero do not quite.
    room -= 1e-9 * bound
    wanted, busy_since, found = 0.0, None, list[tuple[int, int]]()
    for index, (at_us, change) in enumerate(steps):
        wanted += change
        if index + 1 < len(steps) and steps[index + 1][0] == at_us:
            continue
        if wanted > room and busy_since is None:
            busy_since = at_us
        elif wanted <= room and busy_since is not None:
            found.append((busy_since, at_us))
            busy_since = None
    if busy_since is not None:  # one request each is more than the limit, even when nobody sends
        found.append((busy_since, steps[-1][0]))
    return _joined([(max(start - lead_us, 0), end + lead_us) for start, end in found])


def _joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in stretches:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
