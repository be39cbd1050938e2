"""How long an acceptor could not accept: processors' queues were full, no slot was free, or its rate was
used up. (Kafka: AcceptorBlockedPercent)
"""

from types import TracebackType
from typing import Self

from broker.clock import Clock
from broker.metrics.rate import Meter
from broker.metrics.window import Window


class BlockedTime:
    """A context around every such wait; one that is on is part of what is read. May be entered again."""

    __slots__ = ("_clock", "_depth", "_meter", "_since")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._meter = Meter(Window(), unit_ms=1.0)
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
        return round(self._meter.total * 1e6)

    def share(self) -> float:
        """Of the last minute or so, 0 to 1."""
        self._note()
        return min(self._meter.rate.measure(self._clock.ms()), 1.0)

    def _note(self) -> None:
        if self._depth:
            now = self._clock.ns()
            self._meter.record((now - self._since) / 1e6, self._clock.ms())
            self._since = now
