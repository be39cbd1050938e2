"""The run's clock, and the idle time of its event loop.

`TrioClock` is based on Trio's clock, so that a mock clock drives every timing rule of the broker. `app`
installs `LoopIdle` once; Trio calls it around each of its waits, never per request.
"""

import time
from collections.abc import Callable

import trio

from broker.common.clock import BASE_MS


class TrioClock:
    """The `broker.common.clock.Clock` of this run; create it inside the run. Under a mock clock every reading
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


class LoopIdle(trio.abc.Instrument):
    """`idle_ns` grows while the event loop waits in epoll. `began_ns` is the first wait's, or None."""

    def __init__(self, clock: TrioClock) -> None:
        self.began_ns: int | None = None
        self._ns = clock.ns
        self._since: int | None = None
        self._idle_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since = self._ns()
            if self.began_ns is None:
                self.began_ns = self._since

    def after_io_wait(self, timeout: float) -> None:
        if self._since is not None:
            self._idle_ns += self._ns() - self._since
            self._since = None

    @property
    def idle_ns(self) -> int:
        """Total idle time since the start. The caller runs on the loop, so no wait is in progress."""
        return self._idle_ns
