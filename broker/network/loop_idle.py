"""How long the one thread that serves everybody had nothing to do.

Installed once by `app`; called by Trio around each of its waits. All processors and handlers share this
thread, so what any of them could still take is what the thread has left, however long each of them has been
waiting.
"""

import trio

from broker.network.clock import TrioClock


class LoopIdle(trio.abc.Instrument):
    """`idle_ns` grows while the event loop waits for the world."""

    def __init__(self, clock: TrioClock) -> None:
        self._ns = clock.ns
        self._since = 0
        self._idle_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since = self._ns()

    def after_io_wait(self, timeout: float) -> None:
        if self._since:
            self._idle_ns += self._ns() - self._since
            self._since = 0

    @property
    def idle_ns(self) -> int:
        """Since the start. Whoever asks is running, so no wait is on."""
        return self._idle_ns


def head_room(loop_idle: float, busy: float) -> float:
    """Of the time that tasks of one kind took or could still have taken, the share that was left; 1 when
    neither.

    Kafka's idle percentages (NetworkProcessorAvgIdlePercent, RequestHandlerAvgIdlePercent) ask the same of
    threads that have a core each.
    """
    whole = loop_idle + busy
    return loop_idle / whole if whole > 0 else 1.0
