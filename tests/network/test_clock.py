"""The idle share of the thread, exact on a clock that the test sets."""

import pytest

from broker.network.clock import WINDOW_NS, IdleShare, LoopIdle


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


class Thread:
    """A loop whose clock the test moves: it works, and it waits."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = LoopIdle(self.clock)  # type: ignore[arg-type]
        self.share = IdleShare(self.loop)

    def runs(self, *, works: int = 0, waits: int = 0) -> float:
        """The share that a reader sees afterwards."""
        self.clock.now += works
        self.loop.before_io_wait(1.0)
        self.clock.now += waits
        self.loop.after_io_wait(1.0)
        return self.share.update(self.clock.now)


@pytest.mark.parametrize(
    ("works", "waits", "share"),
    [
        (0, WINDOW_NS, 1.0),
        (WINDOW_NS, 0, 0.0),
        (WINDOW_NS * 19 // 20, WINDOW_NS // 20, 0.05),
        (3 * WINDOW_NS, WINDOW_NS, 0.25),
    ],
)
def test_idle_is_the_share_of_the_window_in_which_the_thread_waited(
    works: int, waits: int, share: float
) -> None:
    thread = Thread()
    thread.runs()
    assert thread.runs(works=works, waits=waits) == share


@pytest.mark.parametrize(("works", "share"), [(WINDOW_NS - 1, 1.0), (WINDOW_NS, 0.0), (WINDOW_NS + 1, 0.0)])
def test_a_window_is_a_second_at_least_and_the_last_whole_one_is_reported(works: int, share: float) -> None:
    thread = Thread()
    assert thread.share.update(thread.clock.now) == 1.0, "nothing has been measured yet"
    thread.runs()
    thread.runs(waits=WINDOW_NS)
    assert thread.runs(works=works) == share


def test_time_before_the_loop_ran_does_not_count() -> None:
    thread = Thread()
    assert thread.runs(works=100 * WINDOW_NS) == 1.0
    assert thread.runs(works=WINDOW_NS // 2, waits=WINDOW_NS // 2) == 0.5


def test_readers_have_windows_of_their_own() -> None:
    thread = Thread()
    thread.runs()
    other = IdleShare(thread.loop)
    assert thread.runs(works=WINDOW_NS) == 0.0
    assert thread.runs(waits=WINDOW_NS) == 1.0
    assert other.update(thread.clock.now) == 0.5
