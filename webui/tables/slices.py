"""Long work in slices: whoever has asked the broker for something meanwhile is served between them.

Used by tables.listing and live.beat for tables. Ten thousand rows are a tenth of a second of work, and Kafka
clients are served by the same thread.
"""

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from itertools import islice
from typing import Final, TypeVar

import trio

Item = TypeVar("Item")

SLICE_S: Final = 0.0003
"""So much of the thread's time goes into one slice."""

AT_ONCE: Final = 16
"""Items between two looks at the clock."""


async def sliced(items: Iterable[Item]) -> AsyncGenerator[list[Item], None]:
    """All of `items`, some at a time; between them the thread is others' whenever SLICE_S of it were used."""
    rest = iter(items)
    until = time.perf_counter() + SLICE_S
    while some := list(islice(rest, AT_ONCE)):
        yield some
        if time.perf_counter() >= until:
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE_S


async def gathered(items: Iterable[Item]) -> list[Item]:
    """All of `items`, in slices."""
    found: list[Item] = []
    async with aclosing(sliced(items)) as slices:
        async for some in slices:
            found += some
    return found
