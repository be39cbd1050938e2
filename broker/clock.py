"""Two clocks, kept apart: a monotonic one for every rule, a wall clock for what is written down.

Rooms below `network` never read a clock: they are handed `now_ms`. `ms()` starts from a large base, so that
arithmetic which subtracts windows never meets zero (Kafka's token bucket starts full only because its epoch
clock is large).
"""

import time
from typing import Final, Protocol

BASE_MS: Final = 1_700_000_000_000


class Clock(Protocol):
    """What the composition root hands to whoever has to say what time it is."""

    def ms(self) -> int:
        """Monotonic milliseconds, never near zero, never stepping back."""

    def ns(self) -> int:
        """Monotonic nanoseconds, for request phases only."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for record timestamps, audit rows and retention only."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._origin = time.monotonic_ns()

    def ms(self) -> int:
        return BASE_MS + (time.monotonic_ns() - self._origin) // 1_000_000

    def ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to; for tests and replays."""

    def __init__(self, now_ms: int = BASE_MS, wall_ms: int | None = None) -> None:
        self.now_ms = now_ms
        self._wall_offset = (now_ms if wall_ms is None else wall_ms) - now_ms

    def ms(self) -> int:
        return self.now_ms

    def ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms + self._wall_offset

    def advance(self, ms: int) -> None:
        self.now_ms += ms
