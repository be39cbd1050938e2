"""Two clocks: a monotonic clock for all rules, a wall clock for recorded timestamps.

Packages below `network` never read a clock; they receive `now_ms`. `ms()` starts from a large base, so that
subtracting a window never reaches zero (Kafka's token bucket starts full only because its epoch clock is
large).
"""

from typing import Final, Protocol

BASE_MS: Final = 1_700_000_000_000


class Clock(Protocol):
    """The clock that `app` passes to code that needs the current time."""

    def ms(self) -> int:
        """Return monotonic milliseconds, never near zero."""

    def ns(self) -> int:
        """Return monotonic nanoseconds, for request phases only."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for record timestamps, audit rows and retention only."""
