"""The warning about responses whose connection has closed meanwhile. (Kafka: Processor.sendResponse)

Each responder has one. A client that leaves with requests in hand may cause thousands of them at once, so at
most one line is written in `QUIET_MS`; the next line says how many others there were.
"""

import logging
from typing import Final

logger = logging.getLogger(__name__)

QUIET_MS: Final = 1_000


class UnsendableResponses:
    """Knows no clock: the caller says when each response was dropped."""

    __slots__ = ("_not_told", "_quiet_until_ms")

    def __init__(self) -> None:
        self._quiet_until_ms: int | None = None
        self._not_told = 0

    def warn(self, connection_id: str, now_ms: int) -> None:
        """A response for this connection was dropped."""
        if self._quiet_until_ms is not None and now_ms < self._quiet_until_ms:
            self._not_told += 1
            return
        logger.warning(
            "Attempting to send response via channel for which there is no open connection, "
            f"connection id {connection_id}",
            extra={"others_before": self._not_told} if self._not_told else None,
        )
        self._quiet_until_ms = now_ms + QUIET_MS
        self._not_told = 0
