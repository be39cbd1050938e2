"""Detects forward jumps of the wall clock, so that a wrong time does not delete records.

The store calls this before each round of retention.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

LARGEST_MS: Final = 24 * 3_600_000
"""Largest forward step that retention accepts at once. Kafka has no such guard."""


class ClockSteps:
    """Compares the wall clock with the monotonic clock between calls.

    The first call cannot detect an earlier step.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self._until_ms: int | None = None

    def is_trusted(self, now_wall_ms: int, now_ms: int, wait_ms: int) -> bool:
        """Return whether retention may use `now_wall_ms`.

        After a forward step of more than LARGEST_MS it may not for `wait_ms`; a backward step of that size
        ends the wait.
        """
        ahead_ms = now_wall_ms - now_ms
        step_ms = 0 if self._ahead_ms is None else ahead_ms - self._ahead_ms
        self._ahead_ms = ahead_ms
        if step_ms > LARGEST_MS:
            self._until_ms = now_ms + wait_ms
            words = {"step_ms": step_ms, "wait_ms": wait_ms}
            logger.warning("wall clock jumped forward: retention paused", extra=words)
        elif step_ms < -LARGEST_MS and self._until_ms is not None:
            self._until_ms = None
            logger.warning("wall clock moved back: retention resumed", extra={"step_ms": step_ms})
        if self._until_ms is not None and now_ms >= self._until_ms:
            self._until_ms = None
        return self._until_ms is None
