"""The run's clock, based on Trio's, so that a mock clock drives every timing rule of the broker."""

import time
from collections.abc import Callable

import trio

from broker.clock import BASE_MS


class TrioClock:
    """The `broker.clock.Clock` of this run; create it inside the run. Under a mock clock every reading
    follows the mock.
    """

    def __init__(self) -> None:
        run_clock = trio.lowlevel.current_clock()
        real = type(run_clock).__name__ == "SystemClock"
        self.ns: Callable[[], int] = (
            time.perf_counter_ns if real else lambda: round(run_clock.current_time() * 1e9)
        )
        self.base_ms = BASE_MS - self.ns() // 1_000_000
        """The difference between `ms()` and `ns() // 1_000_000`."""
        started_wall_ms, started_ms = _real_wall_ms(), self.ms()
        self.wall_ms: Callable[[], int] = (
            _real_wall_ms if real else lambda: started_wall_ms + self.ms() - started_ms
        )

    def ms(self) -> int:
        return self.ns() // 1_000_000 + self.base_ms


def _real_wall_ms() -> int:
    return time.time_ns() // 1_000_000
