"""A warning that one event can cause thousands of times, limited to one line per `QUIET_MS`. The next line
has the number of lines left out before it.
"""

import logging
from typing import Final

QUIET_MS: Final = 1_000


class PacedWarning:
    """Independent of clocks: the caller passes the time."""

    __slots__ = ("_logger", "_quiet_until_ms", "_suppressed")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._quiet_until_ms: int | None = None
        self._suppressed = 0

    def warn(self, now_ms: int, text: str, **about: object) -> None:
        """Log a line with the fields `about`, plus `others_before` if lines were left out."""
        if self._quiet_until_ms is not None and now_ms < self._quiet_until_ms:
            self._suppressed += 1
            return
        others: dict[str, object] = {"others_before": self._suppressed} if self._suppressed else {}
        self._logger.warning(text, extra=about | others)
        self._quiet_until_ms = now_ms + QUIET_MS
        self._suppressed = 0
