"""How long an acceptor could not accept: processors' queues were full, no slot was free, or its rate was
used up. (Kafka: AcceptorBlockedPercent)
"""

from types import TracebackType
from typing import Final, Self

from broker.clock import Clock
from broker.metrics.rate import Rate
from broker.metrics.window import Window

LEAST_NS: Final = 1_000_000
"""What is less is kept until it is more: in a storm every other hand-off waits for some microseconds."""


class BlockedTime:
    """A context around every such wait; one that is on is part of what is read. May be entered again."""

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
        self._note()
        self._depth -= 1

    def total_ns(self) -> int:
        """Since the start."""
        self._note()
        return self._total_ns

    def share(self) -> float:
        """Of the last minute or so, 0 to 1."""
        self._note()
        return min(self._rate.measure(self._clock.ms()), 1.0)

    def _note(self) -> None:
        if self._depth:
            now = self._clock.ns()
            self._total_ns += now - self._since
            self._since = now
            unmetered = self._total_ns - self._metered_ns
            if unmetered >= LEAST_NS:
                self._rate.record(unmetered / 1e6, self._clock.ms())
                self._metered_ns = self._total_ns
