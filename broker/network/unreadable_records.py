"""Rebuilds a Fetch response whose records prove unreadable before its first byte is sent.

The responder returns KAFKA_STORAGE_ERROR for the affected partitions. It rebuilds the response from its own
bytes, so that fetches keep nothing for this case. Kafka does not read records before it sends a response, and
closes the connection when the disk fails (FileRecords.writeTo, Selector.pollSelectionKeys).
"""

from typing import Final, cast

from broker.errors import ErrorCode
from broker.network.connection.send import BUFFERS, IOV_MAX, FileRegion, Part
from broker.network.handling.request import Request
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, response_header_version
from broker.protocol.messages.fetch import FetchResponse

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
