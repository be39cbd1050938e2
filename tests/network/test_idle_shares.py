"""Idle shares of the thread, its network threads and its handlers, exact on a clock that the test sets."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.config.listeners import Plane
from broker.network.handling.handler_pool import SlowWaits
from broker.network.server_metrics import WINDOW_NS, Idle, IdleShares


@dataclass
class Pool:
    """A pool of handlers as the shares see it."""

    size: int = 8
    worked: int = 0
    waits: SlowWaits = field(default_factory=SlowWaits)

    def worked_ns(self) -> int:
        return self.worked


@dataclass
class Processor:
    id: int
    busy: int = 0

    def busy_ns(self, _now_ns: int) -> int:
        return self.busy


@dataclass
class PlaneOf:
    handlers: Pool


class Thread:
    """A server, and the loop that its tasks share. The test says what time passes with."""

    def __init__(self, processors: int = 1, *planes: Plane) -> None:
        self.now = 1_000
        self.began_ns: int | None = None
        self.idle_ns = 0
        self.planes = {name: PlaneOf(Pool()) for name in (Plane.DATA, *planes)}
        self.all_processors = [Processor(number) for number in range(processors)]
        self.shares = self.reader()

    def reader(self) -> IdleShares:
        whole: Any = self
        return IdleShares(whole, whole)

    def processors(self) -> list[Processor]:
        return self.all_processors

    def runs(
        self,
        *,
        handlers: int = 0,
        network: int = 0,
        others: int = 0,
        waits: int = 0,
        plane: Plane = Plane.DATA,
        processor: int = 0,
    ) -> Idle:
        """The shares that a reader sees after the thread worked for these, and waited."""
        self.began_ns = self.now if self.began_ns is None else self.began_ns
        self.planes[plane].handlers.worked += handlers
        if network:
            self.all_processors[processor].busy += network
        self.idle_ns += waits
        self.now += handlers + network + others + waits
        return self.shares.update(self.now)


@pytest.mark.parametrize(
    ("works", "waits", "share"),
    [
        (0, WINDOW_NS, 1.0),
        (WINDOW_NS, 0, 0.0),
        (WINDOW_NS * 19 // 20, WINDOW_NS // 20, 0.05),
        (3 * WINDOW_NS, WINDOW_NS, 0.25),
    ],
)
def test_the_thread_is_idle_while_it_waits(works: int, waits: int, share: float) -> None:
    assert Thread().runs(others=works, waits=waits).thread == share


@pytest.mark.parametrize(("works", "share"), [(WINDOW_NS - 1, 1.0), (WINDOW_NS, 0.0), (WINDOW_NS + 1, 0.0)])
def test_a_window_is_a_second_at_least_and_the_last_whole_one_is_reported(works: int, share: float) -> None:
    thread = Thread()
    assert thread.shares.update(thread.now) == Idle(), "nothing has been measured yet"
    thread.runs(waits=WINDOW_NS)
    assert thread.runs(handlers=works).thread == share
    assert thread.shares.update(thread.now).handlers == share


def test_time_before_the_loop_ran_does_not_count() -> None:
    thread = Thread()
    thread.now += 100 * WINDOW_NS
    assert thread.runs(others=WINDOW_NS // 2, waits=WINDOW_NS // 2).thread == 0.5


def test_readers_have_windows_of_their_own() -> None:
    thread = Thread()
    other = thread.reader()
    assert thread.runs(handlers=WINDOW_NS).handlers == 0.0
    assert thread.runs(waits=WINDOW_NS).handlers == 1.0
    assert other.update(thread.now).handlers == 0.5


@pytest.mark.parametrize(
    ("handlers", "network", "waits", "expected"),
    [
        (7, 1, 2, (0.2, 0.9, 0.3)),  # busy handlers
        (1, 7, 2, (0.2, 0.3, 0.9)),  # busy network threads
        (5, 5, 0, (0.0, 0.5, 0.5)),  # a saturated thread, which both use
        (0, 0, 10, (1.0, 1.0, 1.0)),
    ],
)
def test_handlers_and_network_threads_are_distinguished(
    handlers: int, network: int, waits: int, expected: tuple[float, float, float]
) -> None:
    """In tenths of a window."""
    tenth = WINDOW_NS // 10
    idle = Thread().runs(handlers=handlers * tenth, network=network * tenth, waits=waits * tenth)
    assert (idle.thread, idle.network, idle.handlers) == pytest.approx(expected)


def test_the_network_threads_are_averaged_and_each_has_its_own() -> None:
    thread = Thread(2)
    thread.runs(waits=WINDOW_NS)
    idle = thread.runs(network=WINDOW_NS // 2, waits=WINDOW_NS // 2, processor=1)
    assert (idle.processors, idle.network) == ({0: 1.0, 1: 0.5}, 0.75)
    thread.all_processors.clear()
    assert thread.runs(waits=WINDOW_NS).network == 1.0, "as in Kafka"


def test_each_pool_has_its_own_and_all_have_one() -> None:
    thread = Thread(1, Plane.CONTROLLER)
    thread.runs(handlers=WINDOW_NS // 4, waits=0)
    idle = thread.runs(handlers=WINDOW_NS // 2, waits=WINDOW_NS // 4, plane=Plane.CONTROLLER)
    assert (idle.pools, idle.handlers) == ({Plane.DATA: 0.75, Plane.CONTROLLER: 0.5}, 0.25)


@pytest.mark.parametrize(("waiting", "share"), [(0, 1.0), (1, 0.875), (4, 0.5), (8, 0.0)])
def test_a_handler_that_waits_within_a_slow_request_is_one_of_eight_that_are_busy(
    waiting: int, share: float
) -> None:
    thread = Thread()
    for _ in range(waiting):
        thread.planes[Plane.DATA].handlers.waits.begin(thread.now)
    idle = thread.runs(waits=WINDOW_NS)
    assert (idle.thread, idle.network, idle.handlers) == (1.0, 1.0, share)
