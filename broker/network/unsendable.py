"""The warning about responses whose connection has closed. (Kafka: Processor.sendResponse)

Each responder has one. A client that disconnects with requests in flight may cause thousands of them at once,
so at most one line is written per `QUIET_MS`; the next line has the number of the others.
"""

import logging

from broker.network.paced_warning import PacedWarning

logger = logging.getLogger(__name__)


class UnsendableResponses:
    """Independent of clocks: the caller passes the time."""

    __slots__ = ("_warning",)

    def __init__(self) -> None:
        self._warning = PacedWarning(logger)

    def warn(self, connection_id: str, now_ms: int) -> None:
        """Warn that a response for this connection was dropped."""
        self._warning.warn(
            now_ms,
            "Attempting to send response via channel for which there is no open connection, "
            f"connection id {connection_id}",
        )
