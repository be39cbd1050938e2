"""Cached Produce requests: the same client id, acks, topic and partition with new records.

The key of a shape is the bytes before the records. `a00_produce` handles requests of any other shape, and
requests that the log refuses.
"""

import struct
from collections.abc import Sequence
from typing import Final

from broker.api.byte_quotas import record_produce
from broker.api.context import RequestContext
from broker.api.outcome import (
    NO_RESPONSE,
    AfterCommit,
    EncodedResponse,
    Hangup,
    NoResponse,
    Outcome,
    Response,
)
from broker.api.produce_rules import ZSTD_SINCE, append_error, hosted_topic, refusal_of, topic_refusal
from broker.api.request_cache import MAX_BYTES, SENTINELS, Shape, ShapeCache, split_around
from broker.api.services import ProduceServices
from broker.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import encode_response
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.protocol.schema import Buffer
from broker.protocol.varint import read_rest, uvarint
from broker.records.compression import Codec
from broker.records.header import CODEC_AT, CODEC_MASK

LOG_START_SINCE: Final = 5
"""First version whose response has all three fields of OFFSETS."""

OFFSETS: Final = struct.Struct(">qqq")
INT32: Final = struct.Struct(">i")
NO_TAGS: Final = b"\0\0\0"
"""Empty tag sections after the records in flexible versions: partition, topic and request."""

_THROTTLE: Final = 0x44556677
_DONE: Final = object()


class ResponseTemplate:
    """An encoded response for one partition, split around its correlation id, offsets and throttle time."""

    __slots__ = (
        "_after_offsets",
        "_after_throttle",
        "_before_offsets",
        "_index",
        "_size",
        "_topic",
        "_topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, version: int) -> None:
        self._topic = topic
        self._topic_id = topic_id
        self._index = index
        partition = PartitionProduceResponse(index, ErrorCode.NONE, *SENTINELS)
        reply = ProduceResponse([TopicProduceResponse(topic, topic_id, [partition])], _THROTTLE)
        frame = b"".join(encode_response(ApiKey.PRODUCE, version)(reply, 0))  # type: ignore[arg-type]
        self._size = frame[:4]
        self._before_offsets, self._after_offsets, self._after_throttle = split_around(
            frame[8:], OFFSETS.pack(*SENTINELS), INT32.pack(_THROTTLE)
        )

    def fill(self, correlation_id: int, staged: Staged, throttle_ms: int) -> bytes:
        return b"".join(
            (
                self._size,
                INT32.pack(correlation_id),
                self._before_offsets,
                OFFSETS.pack(staged.base_offset, staged.log_append_time, staged.log_start_offset),
                self._after_offsets,
                INT32.pack(throttle_ms),
                self._after_throttle,
            )
        )

    def refuse(self, error: ErrorCode, throttle_ms: int) -> ProduceResponse:
        """Return an error response, without offsets."""
        partition = PartitionProduceResponse(self._index, error, -1)
        return ProduceResponse([TopicProduceResponse(self._topic, self._topic_id, [partition])], throttle_ms)


class ProduceShape(Shape):
    """The records and their length start at `at`."""

    __slots__ = ("acks", "response", "timeout_ms")

    def __init__(
        self,
        at: int,
        client_id: str | None,
        log: PartitionLog,
        message: ProduceRequest,
        response: ResponseTemplate,
    ) -> None:
        super().__init__(at, client_id, log)
        self.acks = message.acks
        self.timeout_ms = message.timeout_ms
        self.response = response


class ProduceCache(ShapeCache[ProduceShape, ProduceServices]):
    """The cached Produce requests of one version on one listener."""

    __slots__ = ("_flexible", "_last_codec", "_tail")

    def __init__(self, version: int, services: ProduceServices) -> None:
        super().__init__(version, services)
        self._flexible = version >= 9
        self._last_codec = CODEC_MASK if version >= ZSTD_SINCE else Codec.ZSTD - 1
        self._tail = len(NO_TAGS) if self._flexible else 0

    def serve(self, frame: Buffer, context: RequestContext) -> Outcome | None:
        """Return the outcome of a cached request, or None to leave it to the full handler."""
        at = context.connection.shape
        shape = self._shapes.get(bytes(frame[8:at]))
        if shape is None or shape.at != at or len(frame) < at + 5:
            return None
        if self._flexible:
            length = frame[at]
            at += 1
            if length > 0x7F:
                length, at = read_rest(frame, at, length)
            length -= 1
        else:
            (length,) = INT32.unpack_from(frame, at)
            at += 4
        end = at + length
        if length <= 0 or end + self._tail != len(frame) or (self._flexible and frame[end:] != NO_TAGS):
            return None
        context.client_id = shape.client_id
        log, records = shape.log, memoryview(frame)[at:end]
        try:
            codec = records[CODEC_AT] & CODEC_MASK
            if codec > self._last_codec:
                return None  # zstd is not allowed in this version
            if codec >= log.inspects_from and (
                next(log.inspect(records, context.wall_ms), _DONE) is not _DONE
            ):
                return None  # too large to inspect in one slice
            staged = log.stage(records, now_wall_ms=context.wall_ms, inspected=True)
        except (ApiError, IndexError):
            return None
        return _CachedRequest(shape, staged, context, self._services)

    def learn(self, frame: Buffer, body: int, message: ProduceRequest, context: RequestContext) -> None:
        """Cache the prefix of a request for one partition that succeeded."""
        if (
            self._version < LOG_START_SINCE
            or len(message.topic_data) != 1
            or len(message.topic_data[0].partition_data) != 1
        ):
            return
        if refusal_of(message):
            return
        (topic,) = message.topic_data
        (partition,) = topic.partition_data
        hosted = hosted_topic(topic, self._services.partitions)
        if hosted is None or topic_refusal(topic, hosted, message.acks):
            return
        log = hosted.opened_log(partition.index)
        records = partition.records
        if log is None or records is None:
            return
        start = len(frame) - self._tail - len(records)
        length = uvarint(len(records) + 1) if self._flexible else INT32.pack(len(records))
        at = start - len(length)
        if at > MAX_BYTES or frame[at:start] != length:
            return
        if self._flexible and frame[len(frame) - self._tail :] != NO_TAGS:
            return
        response = ResponseTemplate(topic.name, topic.topic_id, partition.index, self._version)
        shape = ProduceShape(at, context.client_id, log, message, response)
        self._remember(bytes(frame[8:at]), shape, context.connection)


class _CachedRequest(AfterCommit):
    """A staged append of a cached request."""

    __slots__ = ("context", "services", "shape", "staged")

    def __init__(
        self, shape: ProduceShape, staged: Staged, context: RequestContext, services: ProduceServices
    ) -> None:
        self.shape = shape
        self.staged = staged
        self.context = context
        self.services = services

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return (self.shape.log,)

    @property
    def timeout_ms(self) -> int:
        return self.shape.timeout_ms

    def fail(self) -> Outcome:
        outcome = self.finish()
        if not isinstance(outcome, EncodedResponse):
            return outcome
        throttle = outcome.throttle
        refused = self.shape.response.refuse(
            ErrorCode.REQUEST_TIMED_OUT, throttle.throttle_ms if throttle else 0
        )
        return Response(refused, throttle)

    def finish(self) -> Outcome:
        shape, staged, context, services = self.shape, self.staged, self.context, self.services
        throttle = None
        quotas = services.quotas
        if quotas.produce_active:
            if quotas.broker.active:
                throttle = record_produce(quotas, context)
            else:
                throttle = quotas.produce.record(
                    context.connection.principal, shape.client_id, context.size, context.now_ms
                )
        error = append_error(shape.log, staged)
        if error:
            if shape.acks == 0:
                return Hangup(f"acks=0 and {error.name}", error)
            return Response(shape.response.refuse(error, throttle.throttle_ms if throttle else 0), throttle)
        if services.fetches.watched:
            services.fetches.complete(shape.log)
        if shape.acks == 0:
            return NO_RESPONSE if throttle is None else NoResponse(throttle)
        if throttle is None:
            return EncodedResponse(shape.response.fill(context.correlation_id, staged, 0), None)
        return EncodedResponse(
            shape.response.fill(context.correlation_id, staged, throttle.throttle_ms), throttle
        )
