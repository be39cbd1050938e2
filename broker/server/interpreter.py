"""Tunes the interpreter for the whole run: bounded garbage collections, and prompt switches between threads.

`app` wraps the run in both. A collection blocks the thread for about half a microsecond per object that is
not in the CPU caches, and a broker with 10,000 quota rules and as many topics has 200,000 objects. The
collector therefore traverses new objects only: objects that survive the first minute's collections are
frozen. Reference counting still frees frozen objects, but a cycle of frozen objects is never freed, so no
long-lived object may end in a cycle (tests/endtoend/test_garbage.py).

Helper threads write metadata and read pushed telemetry in Python. After every look at the network the
broker's thread waits for the interpreter, by default for up to 5 ms each time; while thousands of rows are
written, a client then waits for 25 to 180 ms. Threads that do not compete pay nothing.
"""

import gc
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, compress
from typing import Any, Final

import trio

YOUNG_OBJECTS: Final = 2_000
"""Net allocations since the last collection of the youngest generation that trigger the next one."""

IMPORTED_OBJECTS: Final = 20_000
"""The same while modules are imported."""

YOUNG_WALKS: Final = 2
"""Collections of the youngest generation before a collection includes its survivors."""

MAX_WALKED: Final = 10_000
"""Objects per collection. There can be more if old objects are freed as fast as new ones are made, which
triggers no collection; then all are frozen and none is traversed.
"""

CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict})
"""Types whose objects refer to as many others as their length says. Objects of other types refer to few."""

MAX_ELEMENTS: Final = 100_000
"""Elements of the containers of a collection, which follows each of them in up to 35 nanoseconds. One set of
strings is one object to the collector, however many strings it has: 200 sets of 4,875 took 32 ms.
"""

NEVER: Final = 2**31 - 1
CHECK_SECONDS: Final = 1.0
CHECKS: Final = 60
"""Checks between two collections of all objects that are not frozen."""

MAX_SURVIVALS: Final = 1
"""Collections that start with the survivors of the youngest generation. After more of them, the survivors
are too many for one collection and are frozen.
"""


def collect_rarely() -> None:
    """Collect only new objects, and few times, until `bounded_collections`. Imports make objects that stay:
    walking them takes a tenth of the time that they take.
    """
    gc.set_threshold(IMPORTED_OBJECTS, NEVER, NEVER)


@contextmanager
def bounded_collections() -> Iterator[None]:
    """Freeze all existing objects, and bound every collection until the block exits."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_WALKS, NEVER)
    gc.callbacks.append(_bound)
    try:
        yield
    finally:
        gc.callbacks.remove(_bound)
        gc.set_threshold(*thresholds)


async def freeze_survivors() -> None:
    """Freeze surviving objects periodically until cancelled."""
    checks = 0
    while True:
        await trio.sleep(CHECK_SECONDS)
        checks += 1
        survivals = gc.get_count()[2]
        if survivals > MAX_SURVIVALS:
            gc.collect(1)  # frees existing garbage, which must not be frozen
            gc.freeze()
        elif checks < CHECKS:
            continue
        gc.collect()
        gc.freeze()
        checks = 0


def _bound(phase: str, details: dict[str, Any]) -> None:
    """Python calls this before and after every collection.

    A list of all objects exists only within one call of a built-in function. Between two calls another thread
    may go on with a tuple that it makes from a generator, and Python raises SystemError where anything else,
    such a list too, refers to an unfinished tuple.
    """
    if phase == "start":
        generations = range(details["generation"] + 1)
        objects = sum(map(len, map(gc.get_objects, generations)))
        if objects > MAX_WALKED or sum(map(_elements, generations)) > MAX_ELEMENTS:
            gc.freeze()


def _elements(generation: int) -> int:
    """Return the number of elements of all containers of a generation. Asking each object for its bytes
    instead takes more than twice as long, and longer than the collection.

    `sum` makes two lists of the objects. The second one ends with the first, which it does not compare with
    anything; reading it to its end frees it, as it has its own reader among its objects.
    """
    objects = chain.from_iterable(map(gc.get_objects, (generation,)))
    is_container = map(
        CONTAINERS.__contains__, map(type, chain.from_iterable(map(gc.get_objects, (generation,))))
    )
    return sum(chain(map(len, compress(objects, is_container)), map((0).__and__, is_container)))


SWITCH_INTERVAL_SECONDS: Final = 0.0005
"""Python's default is 0.005. A switch takes some ten microseconds, so threads that compete lose 2 %."""


@contextmanager
def prompt_switches() -> Iterator[None]:
    """Let a waiting thread take the interpreter after `SWITCH_INTERVAL_SECONDS`, until the block is left."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
