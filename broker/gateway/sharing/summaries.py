"""The last summaries of all gateways: this one's, and those of the others until they are lost.

Filled by `task`, read by `views`. Pure: time is an argument.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from broker.control.rows.connections import ThrottledRow
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.table import MAX_GATEWAYS
from broker.steps import Steps

KEPT_MS: Final = 5_000
"""A gateway that has told nothing for longer is lost. Summaries are written once a second."""


class Summaries:
    """`own` is this gateway's last summary, None before the first."""

    __slots__ = ("_heard", "_measure", "hears", "own")

    def __init__(self, measure: Callable[[], Steps[Summary]], *, hears: bool) -> None:
        """`measure` makes this gateway's summary. `hears`: those of the others are read, for a console."""
        self.hears = hears
        self.own: Summary | None = None
        self._measure = measure
        # The gateway that was heard longest ago first.
        self._heard: dict[str, tuple[int, Summary]] = {}

    def measure(self) -> Steps[Summary]:
        """Measure this gateway. Yields after every few throttled connections."""
        summary = self.own = yield from self._measure()
        return summary

    def hear(self, summary: Summary, now_ms: int) -> None:
        """Take the next summary of another gateway."""
        self._heard.pop(summary.gateway, None)
        self._heard[summary.gateway] = now_ms, summary
        if len(self._heard) > MAX_GATEWAYS:
            del self._heard[next(iter(self._heard))]
        while now_ms - next(iter(self._heard.values()))[0] > KEPT_MS:
            del self._heard[next(iter(self._heard))]

    def forget(self, gateway: str) -> None:
        """Remove a gateway that has stopped."""
        self._heard.pop(gateway, None)

    def others(self, now_ms: int) -> Mapping[str, Summary]:
        """Return the last summary of each other gateway that is not lost."""
        return {
            name: summary for name, (heard_ms, summary) in self._heard.items() if now_ms - heard_ms <= KEPT_MS
        }

    def throttled(self, now_ms: int) -> Iterator[ThrottledRow]:
        """Yield the throttled connections that the others list, with the remaining time at `now_ms`. One that
        has no time left stays until the next summary tells whether it is throttled again.
        """
        for heard_ms, summary in list(self._heard.values()):
            passed_ms = now_ms - heard_ms
            if passed_ms <= KEPT_MS:
                for row in summary.channels:
                    yield replace(
                        row,
                        remaining_ms=max(row.remaining_ms - passed_ms, 0),
                        since_ms=row.since_ms + passed_ms,
                    )
