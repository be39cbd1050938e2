"""A timer over the wheel: told the time, it hands back what has expired.

Called by `purgatory`. Knows nothing of what its entries mean, and never reads a clock. (Kafka:
org.apache.kafka.server.util.timer.SystemTimer, without its threads.)
"""

from broker.purgatory.timing_wheel import Entry, TimingWheel


class Timer:
    """`advance(now_ms)` returns what is due; `next_deadline()` says when to come back."""

    __slots__ = ("_due", "_wheel")

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20) -> None:
        self._wheel = TimingWheel(tick_ms, wheel_size, start_ms=0)
        self._due: list[Entry] = []

    @property
    def size(self) -> int:
        """Entries scheduled and not yet handed back."""
        return self._wheel.size + sum(not entry.cancelled for entry in self._due)

    def add(self, entry: Entry, now_ms: int) -> None:
        """Schedule the entry. One that is due already is handed back by the next `advance`."""
        self._catch_up(now_ms)
        if not self._wheel.add(entry) and not entry.cancelled:
            self._due.append(entry)

    def advance(self, now_ms: int, limit: int | None = None) -> list[Entry]:
        """Every entry whose expiration is at or before `now_ms`, bucket by bucket in order of time; what is
        beyond `limit` stays due.
        """
        wheel = self._wheel
        expired, self._due = self._due, []
        while (deadline := wheel.next_deadline()) is not None and deadline <= now_ms:
            advance = wheel.advance()
            assert advance is not None
            expired += advance.fired
        wheel.advance_clock(now_ms)
        expired = [entry for entry in expired if not entry.cancelled]
        if limit is not None and len(expired) > limit:
            self._due = expired[limit:]
            del expired[limit:]
        return expired

    def next_deadline(self) -> int | None:
        """The next time at which `advance` has work to do; None when it never will."""
        if self._due:
            return self._due[0].expiration_ms
        return self._wheel.next_deadline()

    def _catch_up(self, now_ms: int) -> None:
        # After a quiet hour the clock lags by an hour: a time-out of a second would start on a high level.
        deadline = self._wheel.next_deadline()
        if deadline is None or deadline > now_ms:
            self._wheel.advance_clock(now_ms)
