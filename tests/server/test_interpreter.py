"""How many objects each garbage collection traverses and when it runs; and a thread that computes does not
keep the interpreter from the broker's thread for milliseconds.
"""

import gc
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import trio

from broker.server import interpreter
from broker.server.interpreter import SWITCH_INTERVAL_SECONDS, prompt_switches
from tests.support.machine_speed import slowness

LONGEST_MS = 5.0


class FakeCollector(SimpleNamespace):
    """A collector with fixed object counts; `survivals` are collections since the last full one."""

    def __init__(self, sizes: list[int] | None = None, survivals: int = 0) -> None:
        super().__init__(calls=[], survivals=survivals, sizes=sizes or [0, 0, 0])

    def get_objects(self, generation: int) -> list[None]:
        return [None] * self.sizes[generation]

    def get_count(self) -> tuple[int, int, int]:
        return (0, 0, self.survivals)

    def freeze(self) -> None:
        self.calls.append("freeze")

    def collect(self, generation: int = 2) -> None:
        self.calls.append(f"collect {generation}")


@pytest.mark.parametrize(
    ("generation", "sizes", "frozen"),
    [
        (0, [interpreter.MAX_WALKED - 1, 9, 9], False),
        (0, [interpreter.MAX_WALKED, 9, 9], False),
        (0, [interpreter.MAX_WALKED + 1, 0, 0], True),
        (1, [interpreter.MAX_WALKED - 9, 9, 9], False),
        (1, [interpreter.MAX_WALKED - 9, 10, 0], True),
        (2, [interpreter.MAX_WALKED - 9, 4, 5], False),
        (2, [interpreter.MAX_WALKED - 9, 4, 6], True),
    ],
)
def test_too_many_objects_for_one_walk_are_frozen_before_it(
    monkeypatch: pytest.MonkeyPatch, generation: int, sizes: list[int], frozen: bool
) -> None:
    collector = FakeCollector(sizes)
    monkeypatch.setattr(interpreter, "gc", collector)
    interpreter._bound("start", {"generation": generation})
    assert collector.calls == ["freeze"] * frozen


@pytest.mark.parametrize("container", sorted(interpreter.CONTAINERS, key=lambda each: each.__name__))
@pytest.mark.parametrize(("more", "frozen"), [(-1, False), (0, False), (1, True)])
def test_objects_with_too_many_elements_for_one_walk_are_frozen_before_it(
    monkeypatch: pytest.MonkeyPatch, container: Any, more: int, frozen: bool
) -> None:
    def holding(count: int) -> Any:
        made = container()
        elements = range(count)
        if isinstance(made, dict):
            made.update(zip(elements, elements, strict=True))
            return made
        return container(elements)

    collector = FakeCollector()
    most = interpreter.MAX_ELEMENTS
    kept = [(holding(most // 2), object()), (holding(most - most // 2 + more), list), (holding(most),)]
    monkeypatch.setattr(collector, "get_objects", kept.__getitem__)
    monkeypatch.setattr(interpreter, "gc", collector)
    interpreter._bound("start", {"generation": 1})
    assert collector.calls == ["freeze"] * frozen


def test_no_other_thread_meets_a_reference_to_an_unfinished_tuple() -> None:
    """Another thread may run after any instruction of the callback."""
    new: list[int] = []
    references: list[int] = []

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        references.append(sys.getrefcount(new))
        return count

    before = sys.gettrace()
    without = sys.getrefcount(new)
    frame = sys._getframe()
    frame.f_trace_opcodes = True  # from Python 3.12 on, `settrace` asks whether any frame has it
    sys.settrace(count)
    try:
        interpreter._bound("start", {"generation": 1})
    finally:
        sys.settrace(before)
    assert len(references) > 50
    assert set(references) == {without}


def test_nothing_is_frozen_after_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = FakeCollector([interpreter.MAX_WALKED + 1, 0, 0])
    monkeypatch.setattr(interpreter, "gc", collector)
    interpreter._bound("stop", {"generation": 0})
    assert collector.calls == []


@pytest.mark.parametrize("survivals", [0, interpreter.MAX_SURVIVALS])
async def test_objects_that_survive_a_minute_are_walked_once_more_and_frozen(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any, survivals: int
) -> None:
    collector = FakeCollector(survivals=survivals)
    monkeypatch.setattr(interpreter, "gc", collector)
    with trio.move_on_after(59.5):
        await interpreter.freeze_survivors()
    assert collector.calls == []
    with trio.move_on_after(120.5):
        await interpreter.freeze_survivors()
    assert collector.calls == ["collect 2", "freeze"] * 2


async def test_too_many_survivors_are_frozen_within_a_second_and_not_walked(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    collector = FakeCollector(survivals=interpreter.MAX_SURVIVALS + 1)
    monkeypatch.setattr(interpreter, "gc", collector)
    with trio.move_on_after(1.5):
        await interpreter.freeze_survivors()
    assert collector.calls == ["collect 1", "freeze", "collect 2", "freeze"]


def test_imports_walk_what_was_just_made_and_nothing_else() -> None:
    walks: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            walks.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    try:
        interpreter.collect_rarely()
        kept = [[each] for each in range(10 * interpreter.IMPORTED_OBJECTS)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(kept) == 10 * interpreter.IMPORTED_OBJECTS
    assert set(walks) == {0} and len(walks) in (9, 10)


def test_the_collector_is_as_before_when_the_broker_has_ended() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with interpreter.bounded_collections():
        assert gc.get_threshold() == (interpreter.YOUNG_OBJECTS, interpreter.YOUNG_WALKS, interpreter.NEVER)
    assert (gc.get_threshold(), list(gc.callbacks)) == before


class Walks:
    """The processor time of each collection, in milliseconds."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._began = 0

    def __call__(self, phase: str, _details: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.thread_time_ns()
        else:
            self.took.append((time.thread_time_ns() - self._began) / 1e6)


def make_and_keep(count: int) -> list[Any]:
    """Create objects that the collector tracks, each of which refers to others."""
    return [{"number": [number], "next": {}} for number in range(count)]


def replace(kept: list[Any]) -> None:
    """Free as many objects as are created, so that the count of new objects does not grow."""
    for number in range(len(kept)):
        kept[number] = {"number": [number], "next": {}}


@pytest.mark.timed
async def test_no_walk_is_long_however_much_is_made_kept_and_replaced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    walks = Walks()
    with interpreter.bounded_collections():
        gc.callbacks.append(walks)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(interpreter.freeze_survivors)
                kept: list[Any] = []
                for _ in range(4):
                    kept += make_and_keep(50_000)
                    await trio.sleep(interpreter.CHECK_SECONDS)
                replace(kept)
                make_and_keep(10_000)
                await trio.sleep(61)
                nursery.cancel_scope.cancel()
        finally:
            gc.callbacks.remove(walks)
    assert len(walks.took) > 100
    assert max(walks.took) < LONGEST_MS * slowness()


@pytest.mark.timed
def test_no_walk_is_long_where_few_objects_refer_to_many() -> None:
    walks = Walks()
    with interpreter.bounded_collections():
        gc.callbacks.append(walks)
        try:
            sets = [frozenset(map(str, range(at, at + 5_000))) for at in range(0, 1_000_000, 5_000)]
            gc.collect(1)
            gc.collect()
        finally:
            gc.callbacks.remove(walks)
    assert len(sets) == 200
    assert max(walks.took) < LONGEST_MS * slowness()


def test_a_cycle_that_has_just_been_made_is_freed() -> None:
    class Node:
        freed = 0

        def __del__(self) -> None:
            Node.freed += 1

    with interpreter.bounded_collections():
        for _ in range(2 * interpreter.YOUNG_OBJECTS):
            node = Node()
            node.itself = node  # type: ignore[attr-defined]
    assert Node.freed >= interpreter.YOUNG_OBJECTS // 4


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
