"""Long work as generators that yield after each item, and the clock that divides it into slices.

A `Steps` generator yields None wherever its caller may pause it, as often as it can: after each item, or
after SLICE elements in a loop in which a yield for each would be most of the work. A `Slices` generator also
yields a `ThreadWork` where a batch must be decompressed or compressed first: the caller runs that, in a
thread if necessary, and resumes the generator. The generator raises its own errors; the caller throws those
of `ThreadWork.run` into it. The generator is the whole state: closing it leaves nothing behind.

`advance` runs one slice, and everything that pauses long work calls it: `common.slice_runner` for tasks,
`network.handling.sliced_requests` for requests, `gateway.processor` for responses. Independent of tasks.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable
from heapq import heappush, heapreplace, merge
from itertools import count
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from broker.common.errors import ApiError

T = TypeVar("T")
Sortable = TypeVar("Sortable", str, bytes, tuple[int, int, int], tuple[str, int])
Result = TypeVar("Result")

SLICE_S: Final = 0.0003
"""Duration of a slice in seconds; ours. Other requests wait for it, and a pause costs a tenth of it."""

FIRST_STEPS: Final = 32
"""Steps that a request makes without a pause if they take at most FIRST_S; ours. A collection of garbage may
take longer than a slice, and a pause may be long: longer work of others is served first.
"""

FIRST_S: Final = 0.001
"""Seconds."""

SLICE: Final = 512
"""Elements that one step of a tight loop handles; ours. Each takes up to a microsecond."""


class ThreadWork(Protocol):
    """Work of up to tens of milliseconds that any thread can run."""

    def run(self) -> None:
        """Raises ApiError."""


Steps: TypeAlias = Generator[None, None, Result]
Slices: TypeAlias = Generator[ThreadWork | None, None, Result]


PAUSE: Final = cast(None, object())
"""Yielded where a slice must end, so that others have their turn before the next step."""


def advance(slices: Slices[Result], error: Exception | None = None) -> ThreadWork | None:
    """Run one slice. Returns the work that a thread must do next, or None. Raises StopIteration with the
    result when the work is done. `error` is what the thread's work raised.
    """
    until = time.perf_counter() + SLICE_S
    work = next(slices) if error is None else slices.throw(error)
    while work is None and time.perf_counter() < until:
        work = next(slices)
    return _without_pause(work)


def begin(slices: Slices[Result]) -> ThreadWork | None:
    """Run the first slice of a request: `advance` with at least FIRST_STEPS steps in FIRST_S."""
    began = time.perf_counter()
    for steps in count(1):
        work = next(slices)
        if work is not None:
            return _without_pause(work)
        took = time.perf_counter() - began
        if took >= (SLICE_S if steps >= FIRST_STEPS else FIRST_S):
            break
    return None


def _without_pause(work: ThreadWork | None) -> ThreadWork | None:
    return None if work is PAUSE else work


class SliceTimer:
    """Ends the slices of a loop that awaits: `if timer.is_over(): await trio.lowlevel.checkpoint()`."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_S

    def is_over(self) -> bool:
        """Return whether the slice is over. The next one then begins."""
        now = time.perf_counter()
        if now < self._until:
            return False
        self._until = now + SLICE_S
        return True


def run_through(slices: Slices[Result]) -> Result:
    """Run all slices at once, for callers that block no other requests. Raises the errors of the work."""
    try:
        work = next(slices)
        while True:
            if work is None or work is PAUSE:
                work = next(slices)
                continue
            try:
                work.run()
            except ApiError as error:
                work = slices.throw(error)
            else:
                work = next(slices)
    except StopIteration as end:
        result: Result = end.value
        return result


def freed(objects: list[Any] | set[Any] | dict[Any, Any]) -> Steps[None]:
    """Empty the container a few objects at a time. It should have the last references to them: Python frees
    10,000 changes in 5 ms if the last reference to a tuple of them is dropped.
    """
    remove = objects.popitem if isinstance(objects, dict) else objects.pop
    while objects:
        remove()
        yield


def nlargest_in_steps(count: int, items: Iterable[T], measure: Callable[[T], float]) -> Steps[list[T]]:
    """Return the `count` items of the largest measure in descending order, the earlier first if equal.

    `heapq.nlargest` with pauses: measuring ten thousand sensors takes tens of milliseconds.
    """
    found: list[tuple[float, int, T]] = []
    for number, item in enumerate(items):
        measured = (measure(item), -number, item)
        if len(found) < count:
            heappush(found, measured)
        elif found and measured > found[0]:
            heapreplace(found, measured)
        yield
    found.sort(reverse=True)
    return [item for *_, item in found]


def sorted_in_steps(items: Collection[Sortable]) -> Steps[list[Sortable]]:
    """`sorted` with pauses: ten thousand names take 4 ms."""
    unsorted = list(items)
    runs = []
    for at in range(0, len(unsorted), SLICE):
        runs.append(sorted(unsorted[at : at + SLICE]))
        yield
    if len(runs) < 2:
        return runs[0] if runs else []
    found = []
    for each in merge(*runs):
        found.append(each)
        yield
    return found
