"""Tells a wall clock that was set forward from one that runs, so that a wrong time does not delete records.

Asked by the store before each round of retention. Knows two times, and nothing of records.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

LARGEST_MS: Final = 24 * 3_600_000
"""A step forward of more than this is not believed at once. Kafka has no such guard."""


class ClockSteps:
    """Compares the wall clock with the monotonic one from look to look. The first look knows nothing of a
    step that came before it.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None
        self._until_ms: int | None = None

    def is_believed(self, now_wall_ms: int, now_ms: int, wait_ms: int) -> bool:
        """Whether retention may go by `now_wall_ms`. After a step forward of more than LARGEST_MS it may not
        for `wait_ms`; a step back of as much ends the wait.
        """
        ahead_ms = now_wall_ms - now_ms
        step_ms = 0 if self._ahead_ms is None else ahead_ms - self._ahead_ms
        self._ahead_ms = ahead_ms
        if step_ms > LARGEST_MS:
            self._until_ms = now_ms + wait_ms
            words = {"step_ms": step_ms, "wait_ms": wait_ms}
            logger.warning("the clock was set forward: retention waits", extra=words)
        elif step_ms < -LARGEST_MS and self._until_ms is not None:
            self._until_ms = None
            logger.warning("the clock was set back: retention goes on", extra={"step_ms": step_ms})
        if self._until_ms is not None and now_ms >= self._until_ms:
            self._until_ms = None
        return self._until_ms is None
