"""The run's clock: Trio's own, so that a mock clock moves every rule of the broker at once."""

import time

import trio

from broker.clock import BASE_MS


class TrioClock:
    """`now` is seconds of the run; `ms` the same in milliseconds over a large base. Made inside the run."""

    def __init__(self) -> None:
        self.now = trio.lowlevel.current_clock().current_time
        self.base_ms = BASE_MS - int(self.now() * 1000)

    def ms(self) -> int:
        return int(self.now() * 1000) + self.base_ms

    def ns(self) -> int:
        return int(self.now() * 1e9)

    def wall_ms(self) -> int:
        return self._real_wall_ms()

    @staticmethod
    def _real_wall_ms() -> int:
        return time.time_ns() // 1_000_000
