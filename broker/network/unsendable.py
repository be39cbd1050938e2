"""Responses that cannot be sent: the log lines about them, and the replacement of unreadable records.

A client that disconnects with requests in flight may cause thousands of dropped responses at once, so at most
one line is written per `QUIET_MS` (Kafka: Processor.sendResponse). If the records of a Fetch response prove
unreadable before its first byte is sent, the responder returns KAFKA_STORAGE_ERROR for the affected
partitions. It rebuilds the response from its own bytes, so that fetches keep nothing for this case. Kafka
does not read records before it sends a response, and closes the connection when the disk fails
(FileRecords.writeTo, Selector.pollSelectionKeys).
"""

import logging
from typing import Final, cast

from broker.common.errors import ErrorCode
from broker.network.connection.send import BUFFERS, IOV_MAX, FileRegion, Part
from broker.network.requests.request_channel import Request
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, response_header_version
from broker.protocol.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)

QUIET_MS: Final = 1_000


class RateLimitedWarning:
    """Writes one line per `QUIET_MS`; the next line has the number of lines left out before it. The caller
    passes the time.
    """

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


class UnsendableResponses:
    """The warning about responses whose connection has closed; each responder has one."""

    def __init__(self) -> None:
        self._warning = RateLimitedWarning(logger)

    def warn(self, connection_id: str, now_ms: int) -> None:
        """Warn that a response for this connection was dropped."""
        self._warning.warn(
            now_ms,
            "Attempting to send response via channel for which there is no open connection, "
            f"connection id {connection_id}",
        )


MAX_PARTS: Final = IOV_MAX
"""The maximum number of parts of a response to rebuild; half as many partitions have records. A larger
response takes too long, and its connection is closed.
"""

_HEADERS: Final = {0: 8, 1: 9}
"""Bytes of the size and the response header, by header version; the header has no tagged fields."""


def without_unreadable(request: Request, parts: list[Part], region: FileRegion) -> list[Part] | None:
    """Return the parts of the response with an error in place of `region` and all other unreadable regions,
    or None if the response cannot be rebuilt.
    """
    route = request.route
    if route.api.key != ApiKey.FETCH or len(parts) > MAX_PARTS:
        return None
    regions = [part for part in parts if not isinstance(part, BUFFERS) and len(part)]
    frame = b"".join(part if isinstance(part, BUFFERS) else bytes(len(part)) for part in parts)
    header = _HEADERS[response_header_version(ApiKey.FETCH, route.version)]
    reply = cast(FetchResponse, codec.decode_response(ApiKey.FETCH, route.version)(frame, header))
    sent = [partition for topic in reply.responses for partition in topic.partitions if partition.records]
    failed = 0
    for partition, records in zip(sent, regions, strict=True):
        if records is not region and records.is_readable():
            partition.records = records
            continue
        partition.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        partition.high_watermark = partition.last_stable_offset = -1
        partition.records = b""
        failed += 1
    route.metrics.count_errors(request, {ErrorCode.KAFKA_STORAGE_ERROR: failed})
    return route.encode(reply, request.correlation_id)
