"""A warning that one event can cause thousands of times: one line in `QUIET_MS` at most, which says how many
were left out before it.
"""

import logging
from typing import Final

QUIET_MS: Final = 1_000


class PacedWarning:
    """Knows no clock: the caller says when."""

    __slots__ = ("_logger", "_not_told", "_quiet_until_ms")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._quiet_until_ms: int | None = None
        self._not_told = 0

    def warn(self, now_ms: int, text: str, **about: object) -> None:
        """`about` are the fields of the line; `others_before` is added to them where lines were left out."""
        if self._quiet_until_ms is not None and now_ms < self._quiet_until_ms:
            self._not_told += 1
            return
        others: dict[str, object] = {"others_before": self._not_told} if self._not_told else {}
        self._logger.warning(text, extra=about | others)
        self._quiet_until_ms = now_ms + QUIET_MS
        self._not_told = 0
