"""Suggests a higher limit to begin with, for clients that a lowered limit would throttle for long at first.

Called by `resolving` for the preview of an edit. Pure: the quotas themselves say how long a limit throttles
first.
"""

from collections.abc import Callable
from math import ceil, floor, log10
from typing import Final

from broker.controller.rows.quotas import FirstWait

GENTLE_MS: Final = 2_000
"""A first throttle up to this long needs no gentler start."""

_HALVINGS: Final = 24
_DOUBLINGS: Final = 64


def first_wait(wait_ms: Callable[[float], int], bound: float) -> FirstWait:
    """Return the first throttle under `bound` and, if it is longer than GENTLE_MS, about the lowest limit
    whose first throttle is not. `wait_ms` returns the first throttle of a limit; higher limits have shorter
    ones.
    """
    wait = wait_ms(bound)
    if wait <= GENTLE_MS:
        return FirstWait(wait)
    low = high = bound
    for _ in range(_DOUBLINGS):
        low, high = high, high * 2
        if wait_ms(high) <= GENTLE_MS:
            break
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if wait_ms(middle) <= GENTLE_MS else (middle, high)
    gentler = round_up(high)
    return FirstWait(wait, gentler, wait_ms(gentler))


def round_up(limit: float) -> float:
    """Round up to two significant digits."""
    step = 10.0 ** (floor(log10(limit)) - 1)
    return float(f"{ceil(limit / step - 1e-9) * step:.12g}")
