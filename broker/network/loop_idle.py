"""How long the one thread that serves everybody had nothing to do.

Installed once by `app`; called by Trio around each of its waits, and never for a request. All processors and
handlers share this thread, so what any of them could still take is what the thread has left: Kafka's
NetworkProcessorAvgIdlePercent and RequestHandlerAvgIdlePercent, which ask threads with a core each, are the
same share here.
"""

from typing import Final

import trio

from broker.network.clock import TrioClock

WINDOW_NS: Final = 1_000_000_000


class LoopIdle(trio.abc.Instrument):
    """`idle_ns` grows while the event loop waits in epoll. `began_ns` is when it was first about to wait, or
    None.
    """

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
        """Since the start. Whoever asks is running, so no wait is on."""
        return self._idle_ns


class IdleShare:
    """The share of the last window in which the thread was idle, from 0 (saturated) to 1. A window lasts from
    one look to the first that is a second or more later. Each reader has one of its own; before the first
    window is over the share is 1.
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
