"""Long work in slices: whoever has asked the broker for something meanwhile is answered between them.

Used wherever the console goes through much: tables, exports, /metrics, the JSON of long answers, a beat of
the live pages. Ten thousand rows are a tenth of a second of work, and Kafka clients are served by the same
thread. Whoever makes the items may put None among them: there is nothing yet, but it took time.
"""

import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing
from heapq import merge
from itertools import chain, count, islice
from typing import Any, Final, TypeVar

import trio

# Public in trio.testing, which loads all of pytest where that is installed.
from trio._core import wait_all_tasks_blocked  # type: ignore[attr-defined]

Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")

SLICE_S: Final = 0.0003
"""So much of the thread's time goes into one slice."""

STEPPED_BACK_S: Final = 0.001
"""And so long others have the thread at most before the next one: some fifteen requests of a broker that is
never idle.
"""

AT_ONCE: Final = 16
"""Items between two looks at the clock, where they are rows."""

SORTED_AT_ONCE: Final = 256


async def step_back() -> None:
    """Lets everybody else go on until nobody has anything to do, or STEPPED_BACK_S are over. A request takes
    several turns of the loop: with one checkpoint between two slices it would wait for a slice in each.
    """
    with trio.move_on_after(STEPPED_BACK_S):
        await wait_all_tasks_blocked()


async def sliced(items: Iterable[Item | None], at_once: int = AT_ONCE) -> AsyncGenerator[list[Item], None]:
    """All of `items` that are not None, some at a time; between them the thread is others' whenever SLICE_S
    of it were used. `at_once`: how many are taken between two looks at the clock.
    """
    rest = iter(items)
    until = time.perf_counter() + SLICE_S
    while some := list(islice(rest, at_once)):
        yield [item for item in some if item is not None]
        if time.perf_counter() >= until:
            await step_back()
            until = time.perf_counter() + SLICE_S


async def gathered(items: Iterable[Item | None], at_once: int = AT_ONCE) -> list[Item]:
    """All of `items` that are not None, in slices."""
    found: list[Item] = []
    async with aclosing(sliced(items, at_once)) as slices:
        async for some in slices:
            found += some
    return found


async def keyed(items: Iterable[Item | None], key: Callable[[Item], Key]) -> dict[Key, Item]:
    """All of `items` that are not None by their keys, in slices. Of equal keys the last item stays."""
    found: dict[Key, Item] = {}
    async with aclosing(sliced(items)) as slices:
        async for some in slices:
            found.update((key(item), item) for item in some)
    return found


async def outcome(steps: Generator[None, None, Result]) -> Result:
    """What a generator returns that stops after each piece of its work."""
    until = time.perf_counter() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if time.perf_counter() >= until:
            await step_back()
            until = time.perf_counter() + SLICE_S


async def let_go(*owned: object) -> None:
    """Empties long lists and dictionaries, and those in short dictionaries, in slices: to free a hundred
    thousand objects takes ten milliseconds. Nobody else may have them.
    """
    await gathered(chain.from_iterable(map(_emptied, owned)), at_once=1)


def _emptied(owned: object) -> Iterator[None]:
    if isinstance(owned, dict) and len(owned) > SORTED_AT_ONCE:
        while owned:
            for _ in range(min(AT_ONCE, len(owned))):
                owned.popitem()
            yield None
    elif isinstance(owned, dict):
        for each in owned.values():
            yield from _emptied(each)
    elif isinstance(owned, list) and len(owned) > SORTED_AT_ONCE:
        while owned:
            del owned[-AT_ONCE:]
            yield None


async def in_order(
    items: Iterable[Item | None], key: Callable[[Item], Any], *, descending: bool = False
) -> list[Item]:
    """`sorted`, in slices: of all that are not None. Equal ones stay as they stand, in either direction."""
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
    return await gathered(item for *_, item in merge(*map(_from_its_end, runs), reverse=descending))


def _from_its_end(run: list[Item]) -> Iterator[Item]:
    """Frees each as soon as the next one is taken."""
    while run:
        yield run.pop()
