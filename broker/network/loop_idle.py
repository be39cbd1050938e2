"""The idle time of the event loop's thread.

`app` installs it once; Trio calls it around each of its waits, never per request. All processors and handlers
share this thread, so Kafka's NetworkProcessorAvgIdlePercent and RequestHandlerAvgIdlePercent, which Kafka
measures over many threads, are the same share here.
"""

from typing import Final

import trio

from broker.network.clock import TrioClock

WINDOW_NS: Final = 1_000_000_000


class LoopIdle(trio.abc.Instrument):
    """`idle_ns` grows while the event loop waits in epoll. `began_ns` is the first wait's, or None."""

    def __init__(self, clock: TrioClock) -> None:
        self.began_ns: int | None = None
        self._ns = clock.ns
        self._since: int | None = None
        self._idle_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since = self._ns()
            if self.began_ns is None:
                self.began_ns = self._since

    def after_io_wait(self, timeout: float) -> None:
        if self._since is not None:
            self._idle_ns += self._ns() - self._since
            self._since = None

    @property
    def idle_ns(self) -> int:
        """Total idle time since the start. The caller runs on the loop, so no wait is in progress."""
        return self._idle_ns


class IdleShare:
    """The share of the last window in which the thread was idle, from 0 (saturated) to 1. A window ends at
    the first `look` that is a second or more after the previous one. Each reader has its own instance; before
    the first window ends the share is 1.
    """

    __slots__ = ("_idle_ns", "_loop", "_since_ns", "share")

    def __init__(self, loop: LoopIdle) -> None:
        self.share = 1.0
        self._loop = loop
        self._since_ns: int | None = None
        self._idle_ns = 0

    def look(self, now_ns: int) -> float:
        since_ns = self._loop.began_ns if self._since_ns is None else self._since_ns
        if since_ns is not None and now_ns - since_ns >= WINDOW_NS:
            idle_ns = self._loop.idle_ns
            self.share = min((idle_ns - self._idle_ns) / (now_ns - since_ns), 1.0)
            self._since_ns, self._idle_ns = now_ns, idle_ns
        return self.share
