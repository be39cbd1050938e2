"""The share of the thread that is left: exact on a clock that is told what to say."""

import pytest

from broker.network.loop_idle import LoopIdle, head_room


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


@pytest.mark.parametrize(
    ("idle", "busy", "share"), [(0, 0, 1.0), (1, 0, 1.0), (0, 1, 0.0), (600, 400, 0.6), (200, 600, 0.25)]
)
def test_what_is_left_of_what_could_have_been_taken(idle: float, busy: float, share: float) -> None:
    assert head_room(idle, busy) == share
