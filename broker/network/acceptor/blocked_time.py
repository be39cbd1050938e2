"""The time during which an acceptor was blocked: full processor queues, no free slot, or an exceeded rate.
(Kafka: AcceptorBlockedPercent)
"""

from types import TracebackType
from typing import Final, Self

from broker.clock import Clock
from broker.metrics.rate import Rate
from broker.metrics.window import Window

LEAST_NS: Final = 1_000_000
"""Shorter times accumulate until they reach this: in a storm every other hand-off waits a few microseconds.
"""


class BlockedTime:
    """A reentrant context manager around every such wait. Readings include a wait in progress."""

    __slots__ = ("_clock", "_depth", "_metered_ns", "_rate", "_since", "_total_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = Rate(Window(), unit_ms=1.0)
        self._total_ns = 0
        self._metered_ns = 0
        self._depth = 0
        self._since = 0

    def __enter__(self) -> Self:
        if not self._depth:
            self._since = self._clock.ns()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._update()
        self._depth -= 1

    def total_ns(self) -> int:
        """Return the total since the start."""
        self._update()
        return self._total_ns

    def share(self) -> float:
        """Return the blocked share of about the last minute, from 0 to 1."""
        self._update()
        return min(self._rate.measure(self._clock.ms()), 1.0)

    def _update(self) -> None:
        if self._depth:
            now = self._clock.ns()
            self._total_ns += now - self._since
            self._since = now
            unmetered = self._total_ns - self._metered_ns
            if unmetered >= LEAST_NS:
                self._rate.record(unmetered / 1e6, self._clock.ms())
                self._metered_ns = self._total_ns
