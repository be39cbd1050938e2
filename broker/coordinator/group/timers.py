"""Timers of the coordinator: sessions, rebalance phases, offset retention.

The transitions set and cancel timers; `expiry` pops and handles the due ones. Does not read
a clock.

A heartbeat only moves its timer's `at_ms`; the queue re-queues the timer when the old time is due. So a
thousand heartbeats cost a thousand assignments, and one queue entry per member.
"""

from collections.abc import Callable
from enum import Enum, auto
from heapq import heappop, heappush
from typing import Final, Protocol

MOVED_AT_ONCE: Final = 128
"""Timers that `next_deadline` queues again at most; ours.

Ten thousand members that joined at the same moment, and have sent heartbeats since, would take 30 ms.
"""


class TimerKind(Enum):
    SESSION = auto()
    JOIN_PHASE = auto()
    SYNC_PHASE = auto()
    RETENTION = auto()
    MEMBER = auto()
    """Of a member of a consumer, share or streams group, which is removed when it is due."""
    INITIAL = auto()
    """Of the first assignment of a streams group."""


class GroupTimer:
    """One deadline. `at_ms` is None while it is not set; `queued_ms` belongs to the queue."""

    __slots__ = ("at_ms", "group_id", "kind", "member_id", "queued_ms")

    def __init__(self, kind: TimerKind, group_id: str = "", member_id: str = "") -> None:
        self.kind = kind
        self.group_id = group_id
        self.member_id = member_id
        self.at_ms: int | None = None
        self.queued_ms: int | None = None


class SetsTimers(Protocol):
    """The changes of timers by a transition."""

    def set(self, timer: GroupTimer, at_ms: int) -> None: ...

    def cancel(self, timer: GroupTimer) -> None: ...


class LaterTimers:
    """The timers that apply if a call succeeds that has paused."""

    def __init__(self) -> None:
        self._changes: dict[GroupTimer, int | None] = {}

    def set(self, timer: GroupTimer, at_ms: int) -> None:
        self._changes[timer] = at_ms

    def cancel(self, timer: GroupTimer) -> None:
        self._changes[timer] = None

    def apply(self, timers: SetsTimers) -> None:
        for timer, at_ms in self._changes.items():
            if at_ms is None:
                timers.cancel(timer)
            else:
                timers.set(timer, at_ms)


class Timers:
    """All timers of the coordinator, earliest first; timers with equal times in queueing order."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, GroupTimer]] = []
        self._serial = 0
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each earlier time of a timer, in ms."""

    def set(self, timer: GroupTimer, at_ms: int) -> None:
        """Set or move the timer to `at_ms`."""
        timer.at_ms = at_ms
        if timer.queued_ms is None or at_ms < timer.queued_ms:
            self._push(timer, at_ms)
            self.on_deadline(at_ms)

    def cancel(self, timer: GroupTimer) -> None:
        timer.at_ms = None

    def next_deadline(self) -> int | None:
        """Return the time of the next timer; None if none is set.

        An earlier time if more than MOVED_AT_ONCE timers have moved: the next call continues.
        """
        queue = self._queue
        left = MOVED_AT_ONCE
        while queue:
            at_ms, _, timer = queue[0]
            if at_ms == timer.queued_ms and at_ms == timer.at_ms:
                return at_ms
            if not left:
                return at_ms
            left -= 1
            heappop(queue)
            if at_ms == timer.queued_ms:
                timer.queued_ms = None
                if timer.at_ms is not None:
                    self._push(timer, timer.at_ms)
        return None

    def pop_due(self, now_ms: int) -> GroupTimer | None:
        """Remove and return the next due timer; None if none is due, or none before the next call."""
        at_ms = self.next_deadline()
        if at_ms is None or at_ms > now_ms:
            return None
        timer = self._queue[0][2]
        if not at_ms == timer.queued_ms == timer.at_ms:
            return None
        heappop(self._queue)
        timer.at_ms = timer.queued_ms = None
        return timer

    def _push(self, timer: GroupTimer, at_ms: int) -> None:
        timer.queued_ms = at_ms
        self._serial += 1
        heappush(self._queue, (at_ms, self._serial, timer))
