"""The effect of signals that stop the broker, and when a second one counts."""

import signal
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.__main__ import SAME_SIGNAL_S, _watch_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    ("after_s", "is_cut_off"),
    [(0.0, False), (0.05, False), (SAME_SIGNAL_S - 0.001, False), (SAME_SIGNAL_S, True)],
)
async def test_a_second_signal_ends_the_drain_only_after_a_second(
    mock_clock: MockClock, second: signal.Signals, after_s: float, is_cut_off: bool
) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_signals, stop, nursery.cancel_scope)
        await wait_all_tasks_blocked()
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        await stop.wait()
        mock_clock.jump(after_s)
        signal.raise_signal(second)
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked(0.01)
        assert nursery.cancel_scope.cancel_called is is_cut_off
        nursery.cancel_scope.cancel()
    signal.raise_signal(second)  # no effect: the stop is already requested


async def test_a_signal_that_was_blocked_until_the_start_stops_the_broker(mock_clock: MockClock) -> None:
    """The image blocks SIGTERM before Python starts: process 1 of a container would lose it."""
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        # To this thread, which alone has the mask: another thread of the tests would take the signal at once.
        signal.raise_signal(signal.SIGTERM)
        assert signal.sigpending() == {signal.SIGTERM}
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, stop, nursery.cancel_scope)
            await wait_all_tasks_blocked(0.01)
            assert stop.is_set()
            assert signal.sigpending() == set()
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == blocked_before
            assert not nursery.cancel_scope.cancel_called
            nursery.cancel_scope.cancel()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # drops what is still pending
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
