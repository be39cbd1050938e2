"""A clock that tests move."""

from broker.common.clock import BASE_MS


class ManualClock:
    """A `broker.common.clock.Clock` that moves only by `advance`."""

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
