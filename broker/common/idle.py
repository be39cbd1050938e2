"""Finds what was idle for longest in large dictionaries, without looking at all of it at once.

Clients choose the names of what quotas and logs keep: user and client ids, addresses, producer ids. So its
number is limited, and making room or expiring takes a bounded time. Pure; time is an argument.
"""

from collections.abc import Callable, Hashable
from heapq import nsmallest
from itertools import islice
from typing import Final, TypeVar

from broker.common.slices import SLICE, Steps

MAX_EXAMINED: Final = 4_096
"""Items compared at once to find those that were idle longest, which takes 2 ms."""


Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")


def idlest(kept: dict[Key, Kept], last_ms: Callable[[Kept], int]) -> list[Key]:
    """Return the eighth that was idle longest, of the first MAX_EXAMINED in `kept`.

    The others of these move to the end, so that the next call examines those that follow.
    """
    examined = list(islice(kept, MAX_EXAMINED))
    found = nsmallest(max(1, len(examined) // 8), examined, key=lambda key: last_ms(kept[key]))
    if len(examined) < len(kept):
        chosen = set(found)
        for key in examined:
            if key not in chosen:
                kept[key] = kept.pop(key)
    return found


def expired_in_steps(
    kept: dict[Key, Kept],
    last_ms: Callable[[Kept], int],
    now_ms: int,
    idle_ms: int,
    drop: Callable[[list[Key]], int],
) -> Steps[int]:
    """Drop what was idle for more than `idle_ms` and return its number."""
    keys, count = list(kept), 0
    for at in range(0, len(keys), SLICE):
        yield
        some = keys[at : at + SLICE]
        idle = [key for key in some if key in kept and now_ms - last_ms(kept[key]) > idle_ms]
        if idle:
            count += drop(idle)
    return count
