"""How often long work of the console gives the thread away, on a clock that the work itself moves."""

import trio


class Polls(trio.abc.Instrument):
    """How often the loop has asked the kernel who has sent something, since the last time one looked."""

    def __init__(self) -> None:
        self._count = 0

    def before_io_wait(self, timeout: float) -> None:
        self._count += 1

    def since(self) -> int:
        count, self._count = self._count, 0
        return count


class WorkClock:
    """The thread's time, moved by the work that is done."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now
