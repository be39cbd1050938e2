"""The hierarchical timing wheel: thousands of timeouts, each added and cancelled in constant time.

Called by `purgatory`, through `Timer`, which passes the time. Independent of clocks and of the entries'
meaning. Two levels can have a bucket of the same deadline, and replays of Kafka show that it empties them in
the order of java.util.PriorityQueue. `heapq` sifts differently, so `DelayQueue` is a heap of its own.

Level 0 has `wheel_size` buckets of `tick_ms`; each further level has buckets as wide as the whole level
below, and is created on first use. An entry is in the bucket of the lowest level that reaches its
expiration. When a bucket of level 0 is due its entries fire; when a higher one is due, they move down. One
queue orders the buckets of all levels, so time advances from bucket to bucket and never ticks through empty
ones. (Kafka: org.apache.kafka.server.util.timer.TimingWheel, TimerTaskList and SystemTimer, without its
threads.)
"""

from typing import Generic, NamedTuple, Protocol, TypeVar


class HasDeadline(Protocol):
    """An item that can be queued."""

    deadline_ms: int


Item = TypeVar("Item", bound=HasDeadline)


class DelayQueue(Generic[Item]):
    """A binary heap; `first_deadline` is None when it is empty."""

    def __init__(self) -> None:
        self._heap: list[Item] = []

    @property
    def first_deadline(self) -> int | None:
        return self._heap[0].deadline_ms if self._heap else None

    def push(self, item: Item) -> None:
        heap = self._heap
        heap.append(item)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if item.deadline_ms >= heap[parent].deadline_ms:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def pop(self) -> Item:
        """Remove and return the earliest item. Raises IndexError if empty."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        earliest = heap[0]
        place, size = 0, len(heap)
        while (child := 2 * place + 1) < size:
            right = child + 1
            if right < size and heap[child].deadline_ms > heap[right].deadline_ms:
                child = right
            if last.deadline_ms <= heap[child].deadline_ms:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = last
        return earliest


class TimerTask:
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
        self.entries: dict[TimerTask, None] = {}


class _Level:
    """One ring: `tick_ms` per bucket, `interval_ms` in total, buckets by deadline."""

    def __init__(self, tick_ms: int, wheel_size: int) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * wheel_size
        self.buckets: dict[int, Bucket] = {}


class Advance(NamedTuple):
    """The result of one due bucket; entries in the order in which they were added to it."""

    to_ms: int
    fired: list[TimerTask]
    reinserted: list[TimerTask]


class TimingWheel:
    """`tick_ms` is the precision: an entry fires up to one tick less a millisecond early, and never late."""

    def __init__(self, tick_ms: int, wheel_size: int, start_ms: int) -> None:
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self.clock_ms = start_ms - start_ms % tick_ms
        self.size = 0
        self._levels = [_Level(tick_ms, wheel_size)]
        self._queue: DelayQueue[Bucket] = DelayQueue()

    def add(self, entry: TimerTask) -> bool:
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


class Timer:
    """`advance(now_ms)` returns the due entries; `next_deadline()` the time of the next call."""

    def __init__(self, tick_ms: int = 1, wheel_size: int = 20) -> None:
        self._wheel = TimingWheel(tick_ms, wheel_size, start_ms=0)
        self._due: list[TimerTask] = []

    @property
    def size(self) -> int:
        """The number of entries that are scheduled and not yet returned."""
        return self._wheel.size + sum(not entry.cancelled for entry in self._due)

    def add(self, entry: TimerTask, now_ms: int) -> None:
        """Schedule the entry. The next `advance` returns an entry that is already due."""
        self._catch_up(now_ms)
        if not self._wheel.add(entry) and not entry.cancelled:
            self._due.append(entry)

    def advance(self, now_ms: int, limit: int | None = None) -> list[TimerTask]:
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
