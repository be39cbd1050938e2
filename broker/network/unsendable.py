"""The warning about responses whose connection has closed meanwhile. (Kafka: Processor.sendResponse)

Each responder has one. A client that leaves with requests in hand may cause thousands of them at once, so at
most one line is written in `QUIET_MS`; the next line says how many others there were.
"""

import logging

from broker.network.paced_warning import PacedWarning

logger = logging.getLogger(__name__)


class UnsendableResponses:
    """Knows no clock: the caller says when each response was dropped."""

    __slots__ = ("_warning",)

    def __init__(self) -> None:
        self._warning = PacedWarning(logger)

    def warn(self, connection_id: str, now_ms: int) -> None:
        """A response for this connection was dropped."""
        self._warning.warn(
            now_ms,
            "Attempting to send response via channel for which there is no open connection, "
            f"connection id {connection_id}",
        )
