"""Pauses of a cleaner thread, so that the event loop has the interpreter most of the time.

`cleaning` and `batches` count their steps, because a pass takes as long for many small batches as for a large
one.
"""

from collections.abc import Callable
from typing import Final

STEPS_AT_ONCE: Final = 64
"""Steps between two pauses; ours. Reading a record is one step, and takes one to three microseconds."""

STEP_BYTES: Final = 8_192
"""Bytes that are copied or checked in the time of a step."""


class Pace:
    """Calls `rest` after STEPS_AT_ONCE steps of work."""

    def __init__(self, rest: Callable[[], object]) -> None:
        """`rest` blocks the calling thread for some time."""
        self._rest = rest
        self._left = STEPS_AT_ONCE

    def step(self) -> None:
        """Count the work for a record or a batch."""
        self._left -= 1
        if self._left <= 0:
            self._left = STEPS_AT_ONCE
            self._rest()

    def copied(self, nbytes: int) -> None:
        """Count bytes that were copied, checked or compressed by one call, which nothing interrupts."""
        self._left -= nbytes // STEP_BYTES
        if self._left <= 0:
            self._left = STEPS_AT_ONCE
            self._rest()
