"""The hierarchical timing wheel: thousands of timeouts, each added and cancelled in constant time.

Called by `timer`, which passes the time. Independent of clocks and of the entries' meaning.

Level 0 has `wheel_size` buckets of `tick_ms`; each further level has buckets as wide as the whole level
below, and is created on first use. An entry is in the bucket of the lowest level that reaches its
expiration. When a bucket of level 0 is due its entries fire; when a higher one is due, they move down. One
queue orders the buckets of all levels, so time advances from bucket to bucket and never ticks through empty
ones. (Kafka: org.apache.kafka.server.util.timer.TimingWheel and TimerTaskList.)
"""

from typing import NamedTuple

from broker.purgatory.delay_queue import DelayQueue


class Entry:
    """A timeout; subclassed by delayed operations. Scheduled while `bucket` is not None."""

    __slots__ = ("bucket", "cancelled", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.bucket: Bucket | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Remove the entry from its wheel permanently: a cancelled entry is never accepted again."""
        self.cancelled = True
        self.unlink()

    def unlink(self) -> None:
        """Remove the entry from its bucket, if it is in one."""
        bucket = self.bucket
        if bucket is not None:
            self.bucket = None
            del bucket.entries[self]
            bucket.wheel.size -= 1


class Bucket:
    """The entries whose expirations fall into one tick of one level, in order of arrival."""

    __slots__ = ("deadline_ms", "entries", "level", "wheel")

    def __init__(self, wheel: "TimingWheel", level: "_Level", deadline_ms: int) -> None:
        self.wheel = wheel
        self.level = level
        self.deadline_ms = deadline_ms
        self.entries: dict[Entry, None] = {}


class _Level:
    """One ring: `tick_ms` per bucket, `interval_ms` in total, buckets by deadline."""

    __slots__ = ("buckets", "interval_ms", "tick_ms")

    def __init__(self, tick_ms: int, wheel_size: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.buckets: dict[int, Bucket] = {}


class Advance(NamedTuple):
    """The result of one due bucket; entries in the order in which they were added to it."""

    to_ms: int
    fired: list[Entry]
    reinserted: list[Entry]


class TimingWheel:
    """`tick_ms` is the precision: an entry fires up to one tick less a millisecond early, and never late."""

    __slots__ = ("_levels", "_queue", "clock_ms", "size", "tick_ms", "wheel_size")

    def __init__(self, tick_ms: int, wheel_size: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self.clock_ms = start_ms - start_ms % tick_ms
        self.size = 0
        self._levels = [_Level(tick_ms, wheel_size)]
        self._queue: DelayQueue[Bucket] = DelayQueue()

    def add(self, entry: Entry) -> bool:
        """Schedule the entry, or move it. Return False if it is cancelled or due within this tick."""
        if entry.bucket is not None:
            entry.unlink()
        expiration = entry.expiration_ms
        if entry.cancelled or expiration < self.clock_ms + self.tick_ms:
            return False
        level = self._level_reaching(expiration)
        deadline = expiration - expiration % level.tick_ms
        bucket = level.buckets.get(deadline)
        if bucket is None:
            bucket = level.buckets[deadline] = Bucket(self, level, deadline)
            self._queue.push(bucket)
        bucket.entries[entry] = None
        entry.bucket = bucket
        self.size += 1
        return True

    def next_deadline(self) -> int | None:
        """Return the deadline of the earliest bucket. A bucket emptied by cancellation keeps its place
        until then.
        """
        return self._queue.first_deadline

    def advance(self) -> Advance | None:
        """Move the clock to the earliest bucket and empty it; return None without buckets."""
        if self._queue.first_deadline is None:
            return None
        bucket = self._queue.pop()
        del bucket.level.buckets[bucket.deadline_ms]
        self.advance_clock(bucket.deadline_ms)
        self.size -= len(bucket.entries)
        advance = Advance(bucket.deadline_ms, [], [])
        for entry in bucket.entries:
            entry.bucket = None
            (advance.reinserted if self.add(entry) else advance.fired).append(entry)
        return advance

    def advance_clock(self, now_ms: int) -> None:
        """Move only the clock. The caller has emptied every bucket due at or before `now_ms`."""
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms - now_ms % self.tick_ms

    def _level_reaching(self, expiration_ms: int) -> _Level:
        clock = self.clock_ms
        for level in self._levels:
            if expiration_ms < clock - clock % level.tick_ms + level.interval_ms:
                return level
        while True:
            level = _Level(self._levels[-1].interval_ms, self.wheel_size)
            self._levels.append(level)
            if expiration_ms < clock - clock % level.tick_ms + level.interval_ms:
                return level
