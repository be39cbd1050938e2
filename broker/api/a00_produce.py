"""Produce: appends record batches to partitions.

Versions 3-13; the advertised minimum is 0 so that old librdkafka accepts the range (KAFKA-18659). Version 13
names topics by id. acks=1 and acks=all are equal because each partition has one replica: the broker responds
after the append reaches the page cache or, where flush.messages requires it, the disk. It waits for the disk
for at most `timeout_ms`, then responds REQUEST_TIMED_OUT; the records stay, as in Kafka. acks=0 has no
response; an error closes the connection. zstd is allowed from version 7. `record.validation` selects the
batches whose records are inspected before the append. An invalid batch fails its own partition only. Left
out: transactions (a transactional id is refused).
"""

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Final

from broker.api.byte_quotas import record_produce
from broker.api.context import RequestContext
from broker.api.outcome import (
    NO_RESPONSE,
    AfterCommit,
    Hangup,
    NoResponse,
    Outcome,
    Response,
    Sliced,
    in_slices,
)
from broker.api.pacing import Pace
from broker.api.produce_cache import ProduceCache
from broker.api.produce_rules import ZSTD_SINCE, append_error, hosted_topic, refusal_of, topic_refusal
from broker.api.registry import api
from broker.api.services import ProduceServices
from broker.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from broker.records.compression import Codec
from broker.records.header import codec_of
from broker.records.slices import SLICE, Slices
from broker.services.partitions import HostedTopic

SINGLE_PIECE_BYTES: Final = 4096
"""Requests of up to this many bytes stage all partitions together; a partition takes at least eight."""

Piece = Iterable[tuple[TopicProduceData, Sequence[PartitionProduceData]]]
Appended = list[tuple[PartitionLog, Staged, PartitionProduceResponse]]


@api(ApiKey.PRODUCE, versions=(3, 13), services=ProduceServices, advertised_min=0, request_cache=ProduceCache)
def handle(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_append_all(message, context, services))


def _append_all(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Slices[Outcome]:
    """Stage the first SLICE partitions, after inspecting the batches that need it.

    `_Pending` stages each further piece of a large request after the previous piece is committed.
    """
    refusal = refusal_of(message)
    faults = {} if refusal else (yield from _inspect(message, context, services))
    pending = _Pending(message, context, services, refusal, faults)
    if context.size > SINGLE_PIECE_BYTES:
        pending.pieces = _pieces(message.topic_data)
        pending.stage(next(pending.pieces, ()))
    else:
        pending.stage((topic, topic.partition_data) for topic in message.topic_data)
    return pending


def _pieces(topics: Sequence[TopicProduceData]) -> Iterator[Piece]:
    """Yield pieces of SLICE topics and partitions together."""
    piece: list[tuple[TopicProduceData, list[PartitionProduceData]]] = []
    left = SLICE
    for topic in topics:
        rest = topic.partition_data
        while True:
            some, rest = rest[:left], rest[left:]
            piece.append((topic, some))
            left -= 1 + len(some)
            if left <= 0:
                yield piece
                piece, left = [], SLICE
            if not rest:
                break
    if piece:
        yield piece


def _inspect(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Slices[dict[int, ApiError]]:
    """Return the errors of batches that fail inspection or use a codec newer than the request's version.

    The key is the `id` of the partition's data.
    """
    faults: dict[int, ApiError] = {}
    pace = Pace()
    is_single = len(message.topic_data) == 1 == len(message.topic_data[0].partition_data)
    for topic in message.topic_data:
        if pace.spent():
            yield None
        hosted = hosted_topic(topic, services.partitions)
        if hosted is None or topic_refusal(topic, hosted, message.acks):
            continue
        for data in topic.partition_data:
            if pace.spent(1 if is_single or not hosted.makes_log(data.index) else SLICE):
                yield None
            try:
                log = hosted.log(data.index)
                if log is None or data.records is None:
                    continue
                codec = codec_of(data.records)
                if codec == Codec.ZSTD and context.api_version < ZSTD_SINCE:
                    raise ApiError(
                        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                        f"Produce requests with version {context.api_version} are not allowed to use zstd",
                    )
                if codec >= log.inspects_from:
                    yield from log.inspect(memoryview(data.records), context.wall_ms)
            except ApiError as error:
                faults[id(data)] = error
    return faults


def _append(
    data: PartitionProduceData,
    hosted: HostedTopic | None,
    refused: ErrorCode,
    fault: ApiError | None,
    wall_ms: int,
    appended: Appended,
) -> PartitionProduceResponse:
    """Stage the records of one partition; `finish` completes the response after the commit."""
    response = PartitionProduceResponse(data.index, ErrorCode.NONE, -1)
    if refused or hosted is None:
        response.error_code = refused
        return response
    try:
        if fault is not None:
            raise fault
        log = hosted.log(data.index)
        if log is None:
            response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif data.records is None:
            response.error_code = ErrorCode.INVALID_RECORD
        else:
            records = memoryview(data.records)
            appended.append((log, log.stage(records, now_wall_ms=wall_ms, inspected=True), response))
    except ApiError as error:
        hosted.failed_appends += 1
        response.error_code = error.code
        response.error_message = error.message
    return response


class _Pending(AfterCommit):
    """A Produce with staged appends: all of them, or one piece of a large request."""

    __slots__ = (
        "_faults",
        "_last",
        "_refusal",
        "acks",
        "appended",
        "context",
        "pieces",
        "responses",
        "services",
        "wait_ms",
    )

    def __init__(
        self,
        message: ProduceRequest,
        context: RequestContext,
        services: ProduceServices,
        refusal: ErrorCode,
        faults: dict[int, ApiError],
    ) -> None:
        self.acks = message.acks
        self.wait_ms = message.timeout_ms
        self.responses: list[TopicProduceResponse] = []
        self.appended: Appended = []
        self.context = context
        self.services = services
        self.pieces: Iterator[Piece] = iter(())
        self._refusal = refusal
        self._faults = faults
        self._last: TopicProduceData | None = None

    def stage(self, piece: Piece) -> None:
        """Stage one piece; the caller commits it before it stages the next."""
        appended: Appended = []
        faults, wall_ms, partitions = self._faults, self.context.wall_ms, self.services.partitions
        for topic, some in piece:
            hosted = hosted_topic(topic, partitions)
            refused = self._refusal or topic_refusal(topic, hosted, self.acks)
            responses = [
                _append(data, hosted, refused, faults.get(id(data)), wall_ms, appended) for data in some
            ]
            if topic is self._last:
                self.responses[-1].partition_responses += responses
            else:
                self.responses.append(TopicProduceResponse(topic.name, topic.topic_id, responses))
                self._last = topic
        self.appended = appended

    def _stage_next(self, piece: Piece) -> Slices[Outcome]:
        yield from ()
        self.stage(piece)
        return self

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return [log for log, _, _ in self.appended]

    @property
    def timeout_ms(self) -> int:
        return self.wait_ms

    def fail(self) -> Outcome:
        outcome = self.finish()
        if self.acks != 0:
            for _, _, response in self.appended:  # finish() builds the responses of staged partitions
                response.error_code = response.error_code or ErrorCode.REQUEST_TIMED_OUT
        return outcome

    def finish(self) -> Outcome:
        services = self.services
        for log, staged, response in self.appended:
            response.error_code = append_error(log, staged)
            if response.error_code:
                continue
            response.base_offset = staged.base_offset
            response.log_append_time_ms = staged.log_append_time
            response.log_start_offset = staged.log_start_offset
            if services.fetches.watched:
                services.fetches.complete(log)
        piece = next(self.pieces, None)
        if piece is not None:
            return Sliced(self._stage_next(piece), None)
        throttle = None
        quotas = services.quotas
        if quotas.produce_active:
            context = self.context
            if quotas.broker.active:
                throttle = record_produce(quotas, context)
            else:
                throttle = quotas.produce.record(
                    context.connection.principal, context.client_id, context.size, context.now_ms
                )
        if self.acks == 0:
            errors = {p.error_code for topic in self.responses for p in topic.partition_responses} - {0}
            if errors:
                error = ErrorCode(errors.pop())
                return Hangup(f"acks=0 and {error.name}", error)
            return NO_RESPONSE if throttle is None else NoResponse(throttle)
        return Response(ProduceResponse(self.responses, throttle.throttle_ms if throttle else 0), throttle)
