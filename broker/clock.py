"""Two clocks, kept apart: a monotonic one for every rule, a wall clock for what is written down.

Rooms below `network` never read a clock: they are handed `now_ms`. `ms()` starts from a large base, so that
arithmetic which subtracts windows never meets zero (Kafka's token bucket starts full only because its epoch
clock is large).
"""

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
