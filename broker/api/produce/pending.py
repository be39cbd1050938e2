"""A Produce whose appends are staged, and its response.

`a00_produce` creates it. A large request is staged in pieces: each piece is committed before the next one is
staged.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from broker.api.produce.rules import (
    append_error,
    hosted_topic,
    record_errors,
    response_log_start_offset,
    topic_refusal,
)
from broker.api.produce.transactions import TransactionalWrite
from broker.api.requests.byte_quotas import record_produce
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import (
    NO_RESPONSE,
    AfterCommit,
    Hangup,
    NoResponse,
    Outcome,
    Response,
    Sliced,
)
from broker.api.requests.services import ProduceServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.partitions.partitions import HostedTopic
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

CHUNK: Final = 8
"""Partitions staged before the next look at the cost; ours. If all roll their logs, they take 3 ms."""

APPEND_COST: Final = 3
"""A staged append in further elements of a slice, as it is written too: 128 in each."""

Chunk = tuple[TopicProduceData, Sequence[PartitionProduceData]]
Appended = list[tuple[PartitionLog, Staged, PartitionProduceResponse]]


class PendingProduce(AfterCommit):
    """A Produce with staged appends: all of them, or one piece of a large request."""

    __slots__ = (
        "_chunks",
        "_faults",
        "_last",
        "_refusal",
        "acks",
        "appended",
        "context",
        "is_staged",
        "responses",
        "services",
        "transaction",
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
        self.is_staged = False
        """Whether all partitions are staged."""
        self.transaction: TransactionalWrite | None = None
        self._chunks = _chunks(message.topic_data)
        self._refusal = refusal
        self._faults = faults
        self._last: TopicProduceData | None = None

    def stage(self) -> None:
        """Stage one piece; the caller commits it before it stages the next.

        A piece ends with the chunk in which a log was rolled, which takes half a millisecond.
        """
        appended: Appended = []
        faults, wall_ms, partitions = self._faults, self.context.wall_ms, self.services.partitions
        store, left = partitions.store, SLICE
        rolls = store.rolls
        for topic, some in self._chunks:
            hosted = hosted_topic(topic, partitions)
            refused = self._refusal or topic_refusal(
                topic,
                hosted,
                self.context,
                self.services.security,
                logs=topic is not self._last,
            )
            responses = [
                _append(data, hosted, refused, faults.get(id(data)), wall_ms, appended, self.transaction)
                for data in some
            ]
            if topic is self._last:
                self.responses[-1].partition_responses += responses
            else:
                self.responses.append(TopicProduceResponse(topic.name, topic.topic_id, responses))
                self._last = topic
            left -= 1 + len(some)
            if left <= APPEND_COST * len(appended) or store.rolls != rolls:
                break
        else:
            self.is_staged = True
        self.appended = appended

    def refuse(self, error: ErrorCode) -> None:
        """Refuse all partitions, before any is staged."""
        self._refusal = error

    def stage_next(self) -> Slices[Outcome]:
        yield from ()
        self.stage()
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
            if services.fetches.watchers.count:
                services.fetches.complete(log)
        if not self.is_staged:
            return Sliced(self.stage_next(), None)
        quotas = services.quotas
        throttle = record_produce(quotas, self.context) if quotas.produce_active else None
        if self.acks == 0:
            errors = {p.error_code for topic in self.responses for p in topic.partition_responses} - {0}
            if errors:
                error = ErrorCode(errors.pop())
                return Hangup(f"acks=0 and {error.name}", error)
            return NO_RESPONSE if throttle is None else NoResponse(throttle)
        return Response(ProduceResponse(self.responses, throttle.throttle_ms if throttle else 0), throttle)


def _chunks(topics: Sequence[TopicProduceData]) -> Iterator[Chunk]:
    """Yield the partitions of each topic, at most CHUNK at a time; an empty chunk for a topic without any."""
    for topic in topics:
        data = topic.partition_data
        if len(data) <= CHUNK:
            yield topic, data
        else:
            for at in range(0, len(data), CHUNK):
                yield topic, data[at : at + CHUNK]


def _append(
    data: PartitionProduceData,
    hosted: HostedTopic | None,
    refused: ErrorCode,
    fault: ApiError | None,
    wall_ms: int,
    appended: Appended,
    transaction: TransactionalWrite | None,
) -> PartitionProduceResponse:
    """Stage the records of one partition; `finish` completes the response after the commit."""
    response = PartitionProduceResponse(data.index, ErrorCode.NONE, -1)
    if refused or hosted is None:
        response.error_code = refused
        return response
    log: PartitionLog | None = None
    reaches_log = fault is not None or transaction is None
    try:
        log = hosted.log(data.index)
        if fault is not None:
            raise fault
        if log is None:
            response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif data.records is None:
            response.error_code = ErrorCode.INVALID_RECORD
        else:
            records = memoryview(data.records)
            if transaction is not None:
                transaction.check(log, records)
                reaches_log = True
            staged = log.stage(records, wall_ms, inspected=True, transactional=transaction is not None)
            appended.append((log, staged, response))
    except ApiError as error:
        hosted.failed_appends += 1
        response.error_code = error.code
        response.error_message = error.message
        response.record_errors = record_errors(error)
        if reaches_log and log is not None:
            response.log_start_offset = response_log_start_offset(error, log)
    return response
