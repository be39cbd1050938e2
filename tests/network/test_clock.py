"""The idle time of the thread, exact on a clock that the test sets."""

from broker.network.clock import LoopIdle


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def ns(self) -> int:
        return self.now


def test_only_waits_that_may_take_time_count() -> None:
    clock = Clock()
    loop = LoopIdle(clock)  # type: ignore[arg-type]
    for timeout, took in ((0.5, 300), (0.0, 50), (2.0, 7)):
        loop.before_io_wait(timeout)
        clock.now += took
        loop.after_io_wait(timeout)
        clock.now += 1_000
    assert loop.idle_ns == 307
