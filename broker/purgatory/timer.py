"""A timer over the wheel that returns expired entries.

Called by `purgatory`. Independent of the entries' meaning, and reads no clock. (Kafka:
org.apache.kafka.server.util.timer.SystemTimer, without its threads.)
"""

from broker.purgatory.timing_wheel import Entry, TimingWheel


class Timer:
    """`advance(now_ms)` returns the due entries; `next_deadline()` the time of the next call."""

    __slots__ = ("_due", "_wheel")

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20) -> None:
        self._wheel = TimingWheel(tick_ms, wheel_size, start_ms=0)
        self._due: list[Entry] = []

    @property
    def size(self) -> int:
        """The number of entries that are scheduled and not yet returned."""
        return self._wheel.size + sum(not entry.cancelled for entry in self._due)

    def add(self, entry: Entry, now_ms: int) -> None:
        """Schedule the entry. The next `advance` returns an entry that is already due."""
        self._catch_up(now_ms)
        if not self._wheel.add(entry) and not entry.cancelled:
            self._due.append(entry)

    def advance(self, now_ms: int, limit: int | None = None) -> list[Entry]:
        """Return every entry whose expiration is at or before `now_ms`, bucket by bucket in order of time.

        Entries beyond `limit` stay due.
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
        """Return the next time at which `advance` has work; None without entries."""
        if self._due:
            return self._due[0].expiration_ms
        return self._wheel.next_deadline()

    def _catch_up(self, now_ms: int) -> None:
        # After an idle hour the clock lags by an hour: a timeout of a second would start on a high level.
        deadline = self._wheel.next_deadline()
        if deadline is None or deadline > now_ms:
            self._wheel.advance_clock(now_ms)
