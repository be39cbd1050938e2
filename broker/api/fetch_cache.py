"""Cached Fetch requests: one partition, no session, a new fetch offset.

The key of a shape is the bytes around the offset. `a01_fetch` handles requests that wait, fail or may be
throttled.
"""

import struct
from typing import Final

from broker.api.context import RequestContext
from broker.api.fetch_pending import replica_of
from broker.api.outcome import EncodedResponse, Outcome
from broker.api.request_cache import MAX_BYTES, SENTINELS, Shape, ShapeCache, split_around
from broker.api.services import FetchServices
from broker.errors import ApiError, ErrorCode, ProtocolViolation
from broker.log.partition import PartitionLog
from broker.log.slice import FileSlice
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from broker.protocol.schema import ZERO_UUID, Buffer
from broker.protocol.varint import uvarint
from broker.services.fetch_sessions import FINAL_EPOCH, NO_SESSION
from broker.services.fetching import check_epoch

INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
PREFIX: Final = struct.Struct(">ii")
OFFSETS: Final = struct.Struct(">qqq")

_RECORDS: Final = b"sixteen bytes of"
_OTHER_OFFSET: Final = 0x0A0B0C0D0E0F1011


class ResponseTemplate:
    """An encoded response for one partition, split around its correlation id, offsets and records."""

    __slots__ = (
        "_before_offsets",
        "_before_records",
        "_behind",
        "_fixed",
        "_flexible",
        "_length",
        "_size",
        "_total",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, version: int) -> None:
        self._flexible = version >= 12
        self._size = self._total = -1
        self._length = b""
        partition = PartitionData(index, ErrorCode.NONE, *SENTINELS, records=_RECORDS)
        reply = FetchResponse(responses=[FetchableTopicResponse(topic, topic_id, [partition])])
        frame = b"".join(codec.encode_response(ApiKey.FETCH, version)(reply, 0))  # type: ignore[arg-type]
        self._before_offsets, before_records, self._behind = split_around(
            frame[8:], OFFSETS.pack(*SENTINELS), _RECORDS
        )
        self._before_records = before_records[: -1 if self._flexible else -4]
        fixed = (self._before_offsets, self._before_records, self._behind)
        self._fixed = INT32.size + OFFSETS.size + sum(map(len, fixed))

    def fill(self, correlation_id: int, log: PartitionLog, records: FileSlice) -> list[bytes | FileSlice]:
        """Return the frame; `records` stays a file slice."""
        size = records.remaining
        if size != self._size:
            # A consumer that catches up gets full responses of equal size.
            self._size = size
            self._length = uvarint(size + 1) if self._flexible else INT32.pack(size)
            self._total = self._fixed + len(self._length) + size
        end = log.high_watermark
        head = b"".join(
            (
                PREFIX.pack(self._total, correlation_id),
                self._before_offsets,
                OFFSETS.pack(end, end, log.log_start_offset),
                self._before_records,
                self._length,
            )
        )
        return [head, records, self._behind] if self._behind else [head, records]


class FetchShape(Shape):
    """The fetch offset is at `at`."""

    __slots__ = ("max_bytes", "min_bytes", "response")

    def __init__(
        self,
        at: int,
        client_id: str | None,
        log: PartitionLog,
        max_bytes: int,
        min_bytes: int,
        response: ResponseTemplate,
    ) -> None:
        super().__init__(at, client_id, log)
        self.max_bytes = max_bytes
        self.min_bytes = min_bytes
        self.response = response


class FetchCache(ShapeCache[FetchShape, FetchServices]):
    """The cached Fetch requests of one version on one listener."""

    __slots__ = ()

    def serve(self, frame: Buffer, context: RequestContext) -> Outcome | None:
        """Return the outcome of a cached request, or None to leave it to the full handler."""
        if len(frame) > MAX_BYTES:
            return None
        at = context.connection.shape
        shape = self._shapes.get(bytes(frame[8:at]) + bytes(frame[at + 8 :]))
        if shape is None or shape.at != at or self._services.quotas.fetch_active:
            return None
        log = shape.log
        (offset,) = INT64.unpack_from(frame, at)
        if offset >= log.high_watermark:
            return None
        try:
            records = log.read(offset, shape.max_bytes, min_one_batch=True)
        except ApiError:
            return None
        if len(records) < shape.min_bytes:
            return None
        context.client_id = shape.client_id
        metrics = log.metrics
        metrics.reads += 1
        metrics.bytes_out += records.remaining
        return EncodedResponse(shape.response.fill(context.correlation_id, log, records), None)

    def learn(self, frame: Buffer, body: int, message: FetchRequest, context: RequestContext) -> None:
        """Cache the bytes around the offset of a request for one partition that succeeded."""
        if len(frame) > MAX_BYTES or self._version < 5:
            return
        if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
            return
        if message.session_id != NO_SESSION or message.session_epoch != FINAL_EPOCH:
            return
        if replica_of(message) >= 0:
            return
        (topic,) = message.topics
        (requested,) = topic.partitions
        partitions = self._services.partitions
        by_id = topic.topic_id != ZERO_UUID
        hosted = partitions.by_id.get(topic.topic_id) if by_id else partitions.by_name.get(topic.topic)
        log = hosted.opened_log(requested.partition) if hosted is not None else None
        at = self._offset_at(frame, body, message)
        if log is None or at is None or check_epoch(requested.current_leader_epoch):
            return
        max_bytes = min(requested.partition_max_bytes, message.max_bytes, self._services.max_bytes)
        response = ResponseTemplate(topic.topic, topic.topic_id, requested.partition, self._version)
        min_bytes = min(message.min_bytes, max_bytes)
        shape = FetchShape(at, context.client_id, log, max_bytes, min_bytes, response)
        self._remember(bytes(frame[8:at]) + bytes(frame[at + 8 :]), shape, context.connection)

    def _offset_at(self, frame: Buffer, body: int, message: FetchRequest) -> int | None:
        """Return the position of the fetch offset in the frame, or None.

        Each candidate is verified: the request is decoded again with another offset written there.
        """
        sought = INT64.pack(message.topics[0].partitions[0].fetch_offset)
        original = bytes(frame)
        decode = codec.decode_request(ApiKey.FETCH, self._version)
        at = original.rfind(sought, body)
        while at >= 0:
            changed = original[:at] + INT64.pack(_OTHER_OFFSET) + original[at + 8 :]
            try:
                (topic,) = decode(changed, body).topics  # type: ignore[attr-defined]
                (partition,) = topic.partitions
            except (ProtocolViolation, ValueError):
                partition = None
            if partition is not None and partition.fetch_offset == _OTHER_OFFSET:
                return at
            at = original.rfind(sought, body, at + 7)
        return None
