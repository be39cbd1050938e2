"""Long work in slices, so that the broker serves Kafka requests in between.

Used for all long work of the console: tables, exports, /metrics, long JSON responses, broadcasts to live
pages. Ten thousand rows are a tenth of a second of work on the thread that serves Kafka clients. Producers
of items may yield None after work that produced no item: the clock is read there too.
"""

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing
from heapq import merge
from itertools import chain, count
from typing import Any, Final, TypeVar

import trio

# Public as trio.testing.wait_all_tasks_blocked, but trio.testing imports pytest where that is installed: 6 MB
# and 0.2 s of every start.
from trio._core import wait_all_tasks_blocked  # type: ignore[attr-defined]

Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")

SLICE_S: Final = 0.0003
"""Duration of one slice."""

MAX_PAUSE_S: Final = 0.001
"""Maximum pause between two slices: about fifteen requests of a busy broker."""

AT_ONCE: Final = 16
"""Rows between two readings of the clock."""

SORTED_AT_ONCE: Final = 256


async def yield_to_others() -> None:
    """Yield to other tasks until all are blocked, or for MAX_PAUSE_S. A request takes several iterations
    of the event loop: with only one checkpoint between two slices it would wait for a slice in each.
    """
    with trio.move_on_after(MAX_PAUSE_S):
        await wait_all_tasks_blocked()


async def sliced(items: Iterable[Item | None], at_once: int = AT_ONCE) -> AsyncGenerator[list[Item], None]:
    """Yield all `items` that are not None, some at a time, and let other tasks run after each SLICE_S.
    `at_once`: the most items between two readings of the clock.
    """
    some: list[Item] = []
    until = time.perf_counter() + SLICE_S
    for item in items:
        if item is not None:
            some.append(item)
            if len(some) < at_once:
                continue
        elif time.perf_counter() < until:
            continue
        if some:
            yield some
            some = []
        if time.perf_counter() >= until:
            await yield_to_others()
            until = time.perf_counter() + SLICE_S
    if some:
        yield some


async def collect(items: Iterable[Item | None], at_once: int = AT_ONCE) -> list[Item]:
    """Return all `items` that are not None, in slices."""
    found: list[Item] = []
    async with aclosing(sliced(items, at_once)) as slices:
        async for some in slices:
            found += some
    return found


async def collect_by_key(items: Iterable[Item | None], key: Callable[[Item], Key]) -> dict[Key, Item]:
    """Return all `items` that are not None by key, in slices. The last item of equal keys wins."""
    found: dict[Key, Item] = {}
    async with aclosing(sliced(items)) as slices:
        async for some in slices:
            found.update((key(item), item) for item in some)
    return found


async def run_in_slices(steps: Generator[None, None, Result]) -> Result:
    """Run a generator that yields after each piece of work, and return its result."""
    until = time.perf_counter() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if time.perf_counter() >= until:
            await yield_to_others()
            until = time.perf_counter() + SLICE_S


async def free_in_slices(*owned: object) -> None:
    """Clear long lists, sets and dictionaries, and those in short dictionaries, in slices: freeing a hundred
    thousand objects takes ten milliseconds. The containers must not be shared.
    """
    await collect(chain.from_iterable(map(_emptied, owned)), at_once=1)


def _emptied(owned: object) -> Iterator[None]:
    if isinstance(owned, dict | set) and len(owned) > SORTED_AT_ONCE:
        remove = owned.popitem if isinstance(owned, dict) else owned.pop
        while owned:
            for _ in range(min(AT_ONCE, len(owned))):
                remove()
            yield None
    elif isinstance(owned, dict):
        for each in owned.values():
            yield from _emptied(each)
    elif isinstance(owned, list) and len(owned) > SORTED_AT_ONCE:
        while owned:
            del owned[-AT_ONCE:]
            yield None


async def sort_in_slices(
    items: Iterable[Item | None], key: Callable[[Item], Any], *, descending: bool = False
) -> list[Item]:
    """Sort all items that are not None, in slices. Stable in either direction."""
    step = -1 if descending else 1
    numbers = count(0, step)
    runs: list[list[tuple[Any, int, Item]]] = [[]]
    async with aclosing(sliced(items)) as slices:
        async for some in slices:
            runs[-1] += [(key(item), next(numbers), item) for item in some]
            if len(runs[-1]) >= SORTED_AT_ONCE:
                runs[-1].sort(reverse=not descending)
                runs.append([])
    runs[-1].sort(reverse=not descending)
    return await collect(item for *_, item in merge(*map(_from_its_end, runs), reverse=descending))


def consumed(items: list[Item]) -> Iterator[Item]:
    """Yield all items in order, and empty the list: each is freed when the next one is taken."""
    items.reverse()
    yield from _from_its_end(items)


def _from_its_end(run: list[Item]) -> Iterator[Item]:
    """Yield items, and free each when the next one is taken."""
    while run:
        yield run.pop()
