"""When Python's collector looks for cycles, and how much it walks at once.

Used by `app` around the whole run. A walk holds the thread for as long as it takes, about half a microsecond
for each object that the caches do not hold; a broker with 10,000 quota rules and as many topics has 200,000
objects. So the collector walks only what is new: what has survived the walks of its first minute is frozen
and not walked again. Reference counting frees what is frozen, as everything else; but a cycle of frozen
objects stays for ever, so nothing that lives long may end as one (tests/endtoend/test_garbage.py).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

YOUNG_OBJECTS: Final = 2_000
"""Objects made and not freed since the collector last walked the youngest."""

YOUNG_WALKS: Final = 2
"""Walks of the youngest after which the next takes in what has survived them."""

MOST_WALKED: Final = 10_000
"""Objects. There may be more where old ones are freed while as many are made, which starts no walk; then, all
are frozen and none is walked.
"""

NEVER: Final = 2**31 - 1
CHECK_SECONDS: Final = 1.0
CHECKS: Final = 60
"""Checks between two walks of everything that is not frozen."""

MOST_SURVIVALS: Final = 1
"""Walks that began with the survivors of the youngest. After more of them, too much has survived to be
walked in one go, and it is frozen.
"""


@contextmanager
def bounded_collections() -> Iterator[None]:
    """Freezes what there is, and bounds every walk until the block is left."""
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
    """Until cancelled."""
    checks = 0
    while True:
        await trio.sleep(CHECK_SECONDS)
        checks += 1
        survivals = gc.get_count()[2]
        if survivals > MOST_SURVIVALS:
            gc.collect(1)  # what is garbage already is not to be frozen
            gc.freeze()
        elif checks < CHECKS:
            continue
        gc.collect()
        gc.freeze()
        checks = 0


def _bound(phase: str, details: dict[str, Any]) -> None:
    """Python calls it before and after every collection."""
    if phase == "start":
        generations = range(details["generation"] + 1)
        if sum(len(gc.get_objects(each)) for each in generations) > MOST_WALKED:
            gc.freeze()
