"""A thread that computes does not keep the interpreter from the broker's thread for milliseconds."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from broker.interpreter import SWITCH_INTERVAL_SECONDS, prompt_switches


@pytest.fixture
def busy_thread() -> Iterator[None]:
    ended = False

    def compute() -> None:
        while not ended:
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    yield
    ended = True
    thread.join()


def shortest_wait_ms(tries: int = 50) -> float:
    """For the interpreter, after a call that gives it up."""
    waits = []
    for _ in range(tries):
        began = time.perf_counter()
        time.sleep(0)
        waits.append(time.perf_counter() - began)
    return min(waits) * 1e3


def test_the_interval_is_short_while_the_broker_runs_and_restored_afterwards() -> None:
    before = sys.getswitchinterval()
    with prompt_switches():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_SECONDS)
    assert sys.getswitchinterval() == before


@pytest.mark.usefixtures("busy_thread")
def test_the_interpreter_comes_back_within_a_millisecond_or_two() -> None:
    with prompt_switches():
        assert shortest_wait_ms() < 2.5
