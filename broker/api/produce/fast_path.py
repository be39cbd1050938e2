"""The fast path of Produce: requests whose batches can all be staged at once.

One pass over the frame finds the log and the batch of each partition, a second one stages the batches, and
the response repeats the request's own bytes that name the topics. `a00_produce` handles requests that need
more: unknown or internal topics, logs that are not open, batches that take long to inspect, many partitions.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.api.produce.rules import (
    ACKS,
    ZSTD_SINCE,
    append_error,
    needs_full_handler,
    record_errors,
    response_log_start_offset,
)
from broker.api.requests.byte_quotas import record_produce
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.fast_path import INT32, ONE_BYTE, REFUSALS, Prologues, TopicReader, Unusual
from broker.api.requests.outcome import (
    NO_RESPONSE,
    AfterCommit,
    EncodedResponse,
    Hangup,
    NoResponse,
    Outcome,
    Response,
)
from broker.api.requests.services import ProduceServices
from broker.api.requests.topics_used import note_written
from broker.common.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.partitions.partitions import HostedTopic
from broker.protocol.client_id import client_id_and_body
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.protocol.schema import Buffer
from broker.quotas.throttled import Throttle
from broker.records.compression import Codec
from broker.records.header import CODEC_AT, CODEC_MASK, HEADER_BYTES
from broker.security.acl.acl import Operation

LOG_START_SINCE: Final = 5
"""First version whose response has the log start offset; the full handler serves older ones."""

MAX_PARTITIONS: Final = 128
"""Partitions of a request that are staged in one go; ours. Each takes two to three microseconds."""

ROLLS_AT_ONCE: Final = 8
"""Partitions of a request that may all roll their logs in one go, which takes 3 ms; ours."""

_DONE: Final = object()

_BODY: Final = struct.Struct(">hhi")
"""Transactional id, which is null; acks; timeout."""
_COMPACT_BODY: Final = struct.Struct(">Bhi")
_PARTITION: Final = struct.Struct(">ii")
"""Index, and the bytes of its records."""
_COMPACT_PARTITION: Final = struct.Struct(">iBBBB")
"""Index, and the four bytes after it, which hold the varint of the records' size."""

Batch = tuple[int, PartitionLog, memoryview]
"""Index of a partition, its log, and its records."""

TopicBatches = tuple[HostedTopic, bytes, list[Batch]]
"""A topic; the bytes in the request from its name to the number of its partitions; its batches."""


Append = tuple[int, PartitionLog, Staged]
"""Index of a partition, its log, and the outcome."""

TopicAppends = tuple[HostedTopic, bytes, list[Append]]
"""A topic, its head, and its appends."""


class ProducePrologue(NamedTuple):
    """The fields of a Produce before its first partition, which is at `end`.

    `topics` is the number of topics, and `counted` its bytes; `first` is the first topic, with its head and
    the number of its partitions.
    """

    client_id: str | None
    acks: int
    timeout_ms: int
    topics: int
    counted: bytes
    first: tuple[HostedTopic, bytes, int]
    end: int


class ProduceFastPath:
    """The fast path of one version on one listener."""

    def __init__(self, version: int, services: ProduceServices) -> None:
        self._version = version
        self._services = services
        self._authorizes = services.security.authorizer is not None
        self._is_flexible = version >= 9
        self._last_codec = CODEC_MASK if version >= ZSTD_SINCE else Codec.ZSTD - 1
        self._layout = ResponseLayout(version)
        self._read_batches = self._compact_batches if self._is_flexible else self._batches
        self._prologues: Prologues[ProducePrologue] = Prologues()
        self._topics = TopicReader(services.partitions, is_flexible=self._is_flexible, uses_ids=version >= 13)

    def forget(self) -> None:
        self._prologues.forget()

    def serve(self, frame: Buffer, context: RequestContext) -> Outcome | None:
        """Stage all batches of a usual request, or return None to leave it to the full handler."""
        if self._version < LOG_START_SINCE:
            return None
        try:
            prologue, topics = self._read(frame, context)
        except (ApiError, *REFUSALS):
            return None
        pending = _FastProduce(prologue, context, self._services, self._layout)
        pending.stage(topics)
        return pending

    def _read(self, frame: Buffer, context: RequestContext) -> tuple["ProducePrologue", list[TopicBatches]]:
        """Return the batches of a request.

        Raises Unusual, ApiError from the inspection of a batch, and others for a truncated frame.
        """
        prologue = self._prologues.find(frame, context.connection)
        if prologue is None:
            prologue = self._read_prologue(frame, context.connection)
        context.client_id = prologue.client_id
        view, wall_ms = memoryview(frame), context.wall_ms
        hosted, head, partitions = prologue.first
        batches, at = self._read_batches(view, prologue.end, partitions, hosted, wall_ms)
        topics = [(hosted, head, batches)]
        for _ in range(prologue.topics - 1):
            hosted, head, count = self._topic(frame, at)
            partitions += count
            if partitions > MAX_PARTITIONS:
                raise Unusual
            batches, at = self._read_batches(view, at + len(head), count, hosted, wall_ms)
            topics.append((hosted, head, batches))
        if self._is_flexible and frame[at]:
            raise Unusual
        if self._authorizes:
            self._check_allowed(topics, context)
        elif prologue.topics > 1:
            for hosted, _, _ in topics:
                note_written(context.connection, hosted.name)
        if partitions > ROLLS_AT_ONCE and any(
            log.may_roll(len(records), wall_ms) for _, _, some in topics for _, log, records in some
        ):
            raise Unusual
        return prologue, topics

    def _check_allowed(self, topics: Sequence[TopicBatches], context: RequestContext) -> None:
        """Raise Unusual if the client may not write to a topic; the full handler then refuses it."""
        security = self._services.security
        for hosted, _, _ in topics:
            if not security.allows_topic(context, Operation.WRITE, hosted.name, logs=False):
                raise Unusual
            note_written(context.connection, hosted.name)

    def _read_prologue(self, frame: Buffer, connection: Connection) -> "ProducePrologue":
        client_id, at = client_id_and_body(frame, self._is_flexible)
        if self._is_flexible:
            transactional, acks, timeout_ms = _COMPACT_BODY.unpack_from(frame, at)
            at += _COMPACT_BODY.size
        else:
            transactional, acks, timeout_ms = _BODY.unpack_from(frame, at)
            transactional += 1
            at += _BODY.size
        if transactional or acks not in ACKS:
            raise Unusual
        topics, counted = self._topics.counted(frame, at)
        if not topics:
            raise Unusual
        at += len(counted)
        first = self._topic(frame, at)
        if not self._authorizes:
            note_written(connection, first[0].name)
        at += len(first[1])
        prologue = ProducePrologue(client_id, acks, timeout_ms, topics, counted, first, at)
        self._prologues.add(frame, at, connection, prologue)
        return prologue

    def _topic(self, frame: Buffer, at: int) -> tuple[HostedTopic, bytes, int]:
        """Return the topic at `at`, which takes records, its head, and the number of its partitions."""
        hosted, head, partitions = self._topics.read(frame, at)
        if partitions > MAX_PARTITIONS or needs_full_handler(hosted):
            raise Unusual
        return hosted, head, partitions

    def _batches(
        self, view: memoryview, at: int, count: int, hosted: HostedTopic, wall_ms: int
    ) -> tuple[list[Batch], int]:
        """Return the batches from `at` on, and the position after them."""
        batches: list[Batch] = []
        for _ in range(count):
            index, size = _PARTITION.unpack_from(view, at)
            at += _PARTITION.size
            log = hosted.open_logs.get(index)
            records = view[at : at + size]
            if log is None or size < HEADER_BYTES or len(records) != size:
                raise Unusual
            codec = records[CODEC_AT] & CODEC_MASK
            if codec >= log.inspects_from or codec > self._last_codec:
                self._inspect(log, records, codec, wall_ms)
            batches.append((index, log, records))
            at += size
        return batches, at

    def _compact_batches(
        self, view: memoryview, at: int, count: int, hosted: HostedTopic, wall_ms: int
    ) -> tuple[list[Batch], int]:
        """Like `_batches`, in a flexible version."""
        batches: list[Batch] = []
        logs, last_codec = hosted.open_logs, self._last_codec
        for _ in range(count):
            index, size, byte1, byte2, byte3 = _COMPACT_PARTITION.unpack_from(view, at)
            if size <= ONE_BYTE:
                at += 5
            elif byte1 <= ONE_BYTE:
                size += (byte1 << 7) - 0x80
                at += 6
            elif byte2 <= ONE_BYTE:
                size += (byte1 << 7) + (byte2 << 14) - 0x4080
                at += 7
            elif byte3 <= ONE_BYTE:
                size += (byte1 << 7) + (byte2 << 14) + (byte3 << 21) - 0x204080
                at += 8
            else:
                raise Unusual
            end = at + size - 1
            log = logs.get(index)
            if log is None or size <= HEADER_BYTES or view[end]:
                raise Unusual
            records = view[at:end]
            codec = records[CODEC_AT] & CODEC_MASK
            if codec >= log.inspects_from or codec > last_codec:
                self._inspect(log, records, codec, wall_ms)
            batches.append((index, log, records))
            at = end + 1
        if view[at]:
            raise Unusual  # tagged fields
        return batches, at + 1

    def _inspect(self, log: PartitionLog, records: memoryview, codec: int, wall_ms: int) -> None:
        """Inspect a batch that needs it, if one slice of work suffices. Raises Unusual and ApiError."""
        if codec > self._last_codec:
            raise Unusual
        if next(log.inspect(records, wall_ms), _DONE) is not _DONE:
            raise Unusual


class ResponseLayout:
    """The layout of responses without errors in one version."""

    def __init__(self, version: int) -> None:
        is_flexible = version >= 9
        self._tags = b"\0" if is_flexible else b""
        self._frame = struct.Struct(">iix" if is_flexible else ">ii")
        self._throttle = struct.Struct(">ix" if is_flexible else ">i")
        # From version 8 on, record errors (an empty array) and an error message (null).
        self._no_errors = b"\1\0\0" if is_flexible else b"\0\0\0\0\xff\xff" if version >= 8 else b""
        self._partition = struct.Struct(f">ihqqq{len(self._no_errors)}s")
        self._not_throttled = self._throttle.pack(0)
        self.throttle_at = -self._throttle.size
        self._fixed = self._frame.size - INT32.size + self._throttle.size

    def encode(
        self,
        correlation_id: int,
        counted: bytes,
        topics: Sequence[TopicAppends],
        throttle_ms: int,
    ) -> bytes:
        """Return the frame. `counted` encodes the number of topics."""
        pack, no_errors, tags = self._partition.pack, self._no_errors, self._tags
        throttle = self._throttle.pack(throttle_ms) if throttle_ms else self._not_throttled
        if len(topics) == 1 and len(topics[0][2]) == 1:
            _, head, ((index, _, each),) = topics[0]
            partition = pack(
                index, 0, each.base_offset, each.log_append_time, each.log_start_offset, no_errors
            )
            size = self._fixed + len(counted) + len(head) + len(partition) + len(tags)
            return b"".join(
                (self._frame.pack(size, correlation_id), counted, head, partition, tags, throttle)
            )
        parts = [b"", counted]
        size = self._fixed + len(counted)
        for _, head, appends in topics:
            size += len(head) + len(tags) + self._partition.size * len(appends)
            parts.append(head)
            for index, _, each in appends:
                parts.append(
                    pack(index, 0, each.base_offset, each.log_append_time, each.log_start_offset, no_errors)
                )
            parts.append(tags)
        parts.append(throttle)
        parts[0] = self._frame.pack(size, correlation_id)
        return b"".join(parts)


class _Refused(Staged):
    """The outcome of an append that the log refused."""

    __slots__ = ("message", "records")

    def __init__(self, error: ApiError, log: PartitionLog) -> None:
        super().__init__(-1, -1, response_log_start_offset(error, log), -1, -1, 0)
        self.error = error.code
        self.message = error.message
        self.records = record_errors(error)


class _FastProduce(AfterCommit):
    """The staged appends of a request.

    It keeps no view of the request's frame, whose buffer is reused once the response is complete.
    """

    __slots__ = (
        "_context",
        "_failures",
        "_has_errors",
        "_layout",
        "_prologue",
        "_services",
        "_topics",
    )

    def __init__(
        self,
        prologue: ProducePrologue,
        context: RequestContext,
        services: ProduceServices,
        layout: ResponseLayout,
    ) -> None:
        self._topics: list[TopicAppends] = []
        self._prologue = prologue
        self._context = context
        self._services = services
        self._layout = layout
        self._has_errors = False
        self._failures = services.partitions.store.failures

    def stage(self, topics: Sequence[TopicBatches]) -> None:
        wall_ms = self._context.wall_ms
        for hosted, head, batches in topics:
            appends: list[Append] = []
            self._topics.append((hosted, head, appends))
            for index, log, records in batches:
                try:
                    appends.append((index, log, log.stage(records, wall_ms, True)))
                except ApiError as error:
                    hosted.failed_appends += 1
                    self._has_errors = True
                    appends.append((index, log, _Refused(error, log)))

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return [log for _, _, appends in self._topics for _, log, each in appends if each.error is None]

    @property
    def timeout_ms(self) -> int:
        return self._prologue.timeout_ms

    def finish(self) -> Outcome:
        services, context = self._services, self._context
        has_errors = self._has_errors
        if services.partitions.store.failures != self._failures:
            has_errors = True
        if services.fetches.watchers.count:
            for log in self.logs:
                services.fetches.complete(log)
        quotas = services.quotas
        throttle = record_produce(quotas, context) if quotas.produce_active else None
        if has_errors:
            return self._with_errors(throttle, ErrorCode.NONE)
        if self._prologue.acks == 0:
            return NO_RESPONSE if throttle is None else NoResponse(throttle)
        throttle_ms = throttle.throttle_ms if throttle else 0
        frame = self._layout.encode(context.correlation_id, self._prologue.counted, self._topics, throttle_ms)
        return EncodedResponse(frame, throttle, self._layout.throttle_at)

    def fail(self) -> Outcome:
        outcome = self.finish()
        if isinstance(outcome, EncodedResponse | Response):
            return self._with_errors(outcome.throttle, ErrorCode.REQUEST_TIMED_OUT)
        return outcome

    def _with_errors(self, throttle: Throttle | None, unless: ErrorCode) -> Outcome:
        """Return the response with the error of each append, or `unless` for those that succeeded."""
        topics: list[TopicProduceResponse] = []
        for hosted, _, appends in self._topics:
            responses = [_response(index, log, each, unless) for index, log, each in appends]
            topics.append(TopicProduceResponse(hosted.name, hosted.topic_id, responses))
        if self._prologue.acks == 0:
            codes = {each.error_code for topic in topics for each in topic.partition_responses} - {0}
            if not codes:  # an append of another request failed
                return NO_RESPONSE if throttle is None else NoResponse(throttle)
            error = ErrorCode(codes.pop())
            return Hangup(f"acks=0 and {error.name}", error)
        return Response(ProduceResponse(topics, throttle.throttle_ms if throttle else 0), throttle)


def _response(index: int, log: PartitionLog, appended: Staged, unless: ErrorCode) -> PartitionProduceResponse:
    response = PartitionProduceResponse(index, ErrorCode.NONE, -1)
    if isinstance(appended, _Refused):
        response.error_message = appended.message
        response.record_errors = appended.records
        response.log_start_offset = appended.log_start_offset
    response.error_code = append_error(log, appended)
    if not response.error_code:
        response.error_code = unless
        response.base_offset = appended.base_offset
        response.log_append_time_ms = appended.log_append_time
        response.log_start_offset = appended.log_start_offset
    return response
