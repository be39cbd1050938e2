"""Long work in slices, so that the broker serves Kafka requests in between.

Used for all long work of the console: tables, exports, /metrics, long JSON responses, broadcasts to live
pages. Ten thousand rows are a tenth of a second of work on the thread that serves Kafka clients. Producers
of items may yield None after work that produced no item: the clock is read there too.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from heapq import merge
from itertools import count
from typing import Any, Final, TypeVar

import trio

# Public as trio.testing.wait_all_tasks_blocked, but trio.testing imports pytest where that is installed: 6 MB
# and 0.2 s of every start.
from trio._core import wait_all_tasks_blocked  # type: ignore[attr-defined]

from broker.common.slice_runner import run_slices
from broker.common.slices import SLICE, SLICE_S, Result, Steps, freed

Item = TypeVar("Item")
Key = TypeVar("Key")

MAX_PAUSE_S: Final = 0.001
"""Maximum pause between two slices: about fifteen requests of a busy broker."""

TOGETHER: Final = 16
"""Items that the reader of `sliced` has at a time: what it does with them belongs to the slice."""


async def yield_to_others() -> None:
    """Yield to other tasks until all are blocked, or for MAX_PAUSE_S. A request takes several iterations
    of the event loop: with only one checkpoint between two slices it would wait for a slice in each.
    """
    with trio.move_on_after(MAX_PAUSE_S):
        await wait_all_tasks_blocked()


async def sliced(items: Iterable[Item | None]) -> AsyncGenerator[list[Item], None]:
    """Yield all `items` that are not None, TOGETHER at a time, and let other tasks run after each slice."""
    some: list[Item] = []
    until = time.perf_counter() + SLICE_S
    for item in items:
        if item is not None:
            some.append(item)
        if len(some) < TOGETHER and time.perf_counter() < until:
            continue
        if some:
            yield some
            some = []
        if time.perf_counter() >= until:
            await yield_to_others()
            until = time.perf_counter() + SLICE_S
    if some:
        yield some


async def collect(items: Iterable[Item | None]) -> list[Item]:
    """Return all `items` that are not None, in slices."""
    found: list[Item] = []
    async with aclosing(sliced(items)) as slices:
        async for some in slices:
            found += some
    return found


async def collect_by_key(items: Iterable[Item | None], key: Callable[[Item], Key]) -> dict[Key, Item]:
    """Return all `items` that are not None by key, in slices. The last item of equal keys wins."""
    return dict(await collect(None if item is None else (key(item), item) for item in items))


async def run_in_slices(slices: Steps[Result]) -> Result:
    """Run the slices with pauses that leave the thread to others, and return their result."""
    return await run_slices(slices, pause=yield_to_others)


async def free_in_slices(*owned: object) -> None:
    """Clear long lists, sets and dictionaries, and those in short dictionaries, in slices: freeing a hundred
    thousand objects takes ten milliseconds. The containers must not be shared.
    """
    await run_in_slices(_freed(owned))


def _freed(owned: Iterable[object]) -> Steps[None]:
    for each in owned:
        if isinstance(each, dict) and len(each) <= SLICE:
            yield from _freed(each.values())
        elif isinstance(each, list | dict | set) and len(each) > SLICE:
            yield from freed(each)


async def sort_in_slices(
    items: Iterable[Item | None], key: Callable[[Item], Any], *, descending: bool = False
) -> list[Item]:
    """Sort all items that are not None, in slices. Stable in either direction."""
    numbers = count(0, -1 if descending else 1)
    keyed = (None if item is None else (key(item), next(numbers), item) for item in items)
    runs: list[list[tuple[Any, int, Item]]] = [[]]
    async with aclosing(sliced(keyed)) as slices:
        async for some in slices:
            runs[-1] += some
            if len(runs[-1]) >= SLICE:
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
