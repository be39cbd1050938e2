"""A ShareFetch in progress: how it reads batches and acquires them, and how its response is built. (Kafka:
DelayedShareFetch, ShareFetchUtils.processFetchResponse)

`api.a78_share_fetch` creates it and completes it at once or, after a wait, through
`api.requests.delayed_operations`. Of several waiting fetches the first one acquires what becomes available,
and the others wait on. A response without the records that it would have, because of a quota, gives them
back: they do not count as delivered. Only the headers of large batches are read, so that records go from the
page cache to the socket.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.api.fetch.pending import WithheldRecords
from broker.api.requests.byte_quotas import RecordedFetch, needs_the_disk
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Response
from broker.api.requests.services import ShareServices
from broker.api.share.acknowledgements import Failure
from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.sessions import FIRST_EPOCH, ShareSession, Told
from broker.coordinator.share.share_partition import AcquiredRange, Lock, SharePartition, Span
from broker.coordinator.share.states import SharePartitionKey
from broker.log.aborted_transactions import AbortedTransaction
from broker.log.partition import PartitionLog
from broker.log.slice import FileSlice
from broker.partitions.fetching import NOTHING, FetchedPartition, RequestedPartition
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from broker.quotas.throttled import Throttle
from broker.records.control import marker_of
from broker.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG, header_at

CHUNK: Final = 65_536
"""Bytes that are read at once for the headers of small batches."""

_MARKER_BYTES: Final = 256
"""More than a control batch has."""


class LogBatch(NamedTuple):
    """A whole batch: its position from the start of the slice and its size in bytes. `producer_id` is -1
    outside of transactions; `ends_abort`: it is the marker that aborts its producer's transaction.
    """

    span: Span
    position: int
    size: int
    producer_id: int
    ends_abort: bool


def batches_of(records: FileSlice, end: int) -> list[LogBatch]:
    """Return the whole batches that begin before offset `end`.

    Raises ApiError CORRUPT_MESSAGE for an impossible length, UnreadableRegion.
    """
    found: list[LogBatch] = []
    length = len(records)
    chunk, chunk_at = b"", 0
    at = 0
    while at + HEADER_BYTES <= length:
        if at + _MARKER_BYTES > chunk_at + len(chunk):
            chunk_at = at
            chunk = records.part(at, min(at + CHUNK, length)).read()
        header = header_at(chunk, at - chunk_at)
        if header.size < HEADER_BYTES or header.last_offset_delta < 0:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Impossible batch length {header.length}")
        if at + header.size > length or header.base_offset >= end:
            break
        in_transaction = header.attributes & TRANSACTIONAL_FLAG != 0
        ends_abort = False
        if header.is_control:
            start = at - chunk_at
            marker = marker_of(chunk[start : start + header.size])
            ends_abort = marker is not None and not marker.is_commit
        found.append(
            LogBatch(
                Span(header.base_offset, header.last_offset),
                at,
                header.size,
                header.producer_id if in_transaction else -1,
                ends_abort,
            )
        )
        at += header.size
    return found


def aborted_of(batches: Sequence[LogBatch], aborted: Iterable[AbortedTransaction]) -> list[Span]:
    """Return the batches with records of aborted transactions, without their markers."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    if not waiting:
        return []
    producers: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[-1].first_offset <= batch.span.last:
            producers.add(waiting.pop().producer_id)
        if batch.ends_abort:
            producers.discard(batch.producer_id)
        elif batch.producer_id in producers:
            found.append(batch.span)
    return found


AT_ONCE: Final = 3
"""Reads in one go of a partition without any record to acquire, as where compaction has removed all; ours."""

BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
"""The share acquire mode in which a batch is cut at the most records. (KIP-1206)"""


class WantedPartition:
    """A share partition to fetch from, with its log."""

    __slots__ = ("key", "log", "share")

    def __init__(self, key: SharePartitionKey, log: PartitionLog, share: SharePartition) -> None:
        self.key = key
        self.log = log
        self.share = share


class _Found:
    """Acquired records of one partition: a slice of its log, or an error."""

    __slots__ = ("acquired", "error", "lock", "records", "wanted")

    def __init__(
        self,
        wanted: WantedPartition,
        records: FileSlice | bytes,
        acquired: Sequence[AcquiredRange],
        lock: Lock | None,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.wanted = wanted
        self.records = records
        self.acquired = acquired
        self.lock = lock
        self.error = error


class PendingShareFetch:
    """`failures` are the partitions that are not fetched, and `acknowledged` the results of the
    acknowledgements in the request, both by share partition.
    """

    __slots__ = (
        "_found",
        "_is_committed",
        "_lock_ms",
        "_max_bytes",
        "_min_bytes",
        "_ready",
        "acknowledged",
        "context",
        "failures",
        "message",
        "services",
        "session",
        "wanted",
    )

    def __init__(
        self,
        message: ShareFetchRequest,
        session: ShareSession,
        wanted: list[WantedPartition],
        failures: Mapping[SharePartitionKey, Failure],
        acknowledged: Mapping[SharePartitionKey, Failure],
        max_bytes: int,
        context: RequestContext,
        services: ShareServices,
    ) -> None:
        self.message = message
        self.session = session
        self.wanted = wanted
        self.failures = failures
        self.acknowledged = acknowledged
        self.context = context
        self.services = services
        settings = services.share.settings_of(message.group_id or "")
        self._lock_ms = settings.record_lock_duration_ms
        self._is_committed = settings.is_committed
        self._max_bytes = max_bytes
        self._min_bytes = min(message.min_bytes, max_bytes)
        self._found: list[_Found] | None = None
        self._ready: list[SharePartitionKey] = []

    def try_acquire(self) -> bool:
        """Acquire records if there are as many bytes as the member waits for, or an error; return whether the
        fetch is complete.
        """
        if self._found is not None:
            return True
        if self.context.connection.closed:
            return False
        try:
            return self._try_acquire()
        except ApiError:
            self._acquire()
            return True

    def try_last(self) -> None:
        """Acquire records if the last one of `wanted` has enough alone, so that each costs the same."""
        if self._found is None and self.wanted and self._has_enough(self.wanted[-1]):
            self.try_acquire()

    def _has_enough(self, wanted: WantedPartition) -> bool:
        try:
            size = self._available(wanted)
        except ApiError:
            return True
        return size > 0 and size >= self._min_bytes

    def _try_acquire(self) -> bool:
        for _ in range(AT_ONCE):
            size = 0
            for each in self.wanted:
                if each.share.is_fenced or each.log.deleted or each.log.offline is not None:
                    self._found = []
                    self._acquire()
                    return True
                if size < self._min_bytes or not size:
                    size += self._available(each)
            if not size or size < self._min_bytes:
                return False
            self._acquire()
            if self._found:
                return True
            self._found = None
        return False

    def response(self) -> Response:
        """Build the response, with whatever can be acquired now if the fetch has waited in vain; nothing for
        a client that has gone, because nobody would release it.
        """
        if self._found is None:
            if self.context.connection.closed:
                self._found = []
            else:
                self._acquire()
        return self._settle(self._reply(self._found or []))

    def _end(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._is_committed else log.high_watermark

    def _available(self, wanted: WantedPartition) -> int:
        """Return the bytes that can be read for the member; 1 for any if it waits for no more."""
        share, log = wanted.share, wanted.log
        if log.log_start_offset > share.start_offset:
            share.forget_before(log.log_start_offset)
        if not share.can_acquire():
            return 0
        offset = share.next_fetch_offset()
        if offset >= self._end(log):
            return 0
        return 1 if self._min_bytes <= 1 else len(self._read(log, offset, self._max_bytes, is_first=True))

    def _read(self, log: PartitionLog, offset: int, max_bytes: int, *, is_first: bool) -> FileSlice:
        offset = log.past_gap(offset)
        read = log.read_committed if self._is_committed else log.read
        return read(offset, max_bytes, min_one_batch=is_first)

    def _acquire(self) -> None:
        """Read and acquire, partition by partition. Each gets the same part of the bytes."""
        found: list[_Found] = []
        left = self.message.max_records
        ready = []
        self._ready = []
        for each in self.wanted:
            if each.share.is_fenced:
                continue
            try:
                each.log.check_usable()
                if self._available(each):
                    ready.append(each)
                if each.share.can_acquire():
                    self._ready.append(each.key)
            except ApiError as error:
                found.append(_Found(each, NOTHING, (), None, error.code))
        max_bytes = self._max_bytes // max(len(ready), 1)
        has_records = False
        for each in ready:
            if left <= 0:
                break
            each.log.metrics.reads += 1
            try:
                one = self._acquire_from(each, left, max_bytes, is_first=not has_records)
            except ApiError as error:
                found.append(_Found(each, NOTHING, (), None, error.code))
                continue
            if one is not None:
                found.append(one)
                has_records = True
                left -= sum(acquired.last - acquired.first + 1 for acquired in one.acquired)
        self._found = found

    def _acquire_from(
        self, wanted: WantedPartition, most: int, max_bytes: int, *, is_first: bool
    ) -> _Found | None:
        share, log, message = wanted.share, wanted.log, self.message
        offset = share.next_fetch_offset()
        records = self._read(log, offset, max_bytes, is_first=is_first)
        aborted: list[AbortedTransaction] = []
        if self._is_committed and len(records):
            aborted = log.aborted_in(log.past_gap(offset), len(records))
        batches = batches_of(records, max(share.end_offset, offset) + most)
        lock = self.services.share.new_lock(wanted.key, message.member_id or "")
        is_exact = message.share_acquire_mode == RECORD_LIMIT
        acquired = share.acquire(
            lock,
            offset,
            [each.span for each in batches],
            most,
            message.max_records if is_exact else message.batch_size,
            aborted_of(batches, aborted),
            is_exact=is_exact,
        )
        if not acquired:
            return None
        self.services.share.hold(lock)
        return _Found(wanted, _part(records, batches, acquired), acquired, lock)

    def _named(self) -> list[SharePartitionKey]:
        """Return the partitions that the response names even if they have no records."""
        if self.message.share_session_epoch == FIRST_EPOCH:
            return self._ready
        return [key for key in self._ready if self.session.partitions.get(key)]

    def _reply(self, found: Iterable[_Found]) -> ShareFetchResponse:
        topics: dict[bytes, dict[int, PartitionData]] = {}

        def data(key: SharePartitionKey) -> PartitionData:
            partitions = topics.setdefault(key.topic_id, {})
            return partitions.setdefault(key.partition, PartitionData(key.partition))

        for key in self._named():
            data(key)
        for key, failure in self.failures.items():
            partition = data(key)
            partition.error_code, partition.error_message = failure.code, failure.message
        for each in found:
            partition = data(each.wanted.key)
            partition.error_code = each.error
            partition.records = each.records
            partition.acquired_records = [AcquiredRecords(*acquired) for acquired in each.acquired]
        for key, failure in self.acknowledged.items():
            partition = data(key)
            partition.acknowledge_error_code = failure.code
            partition.acknowledge_error_message = failure.message
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._lock_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id, list(partitions.values()))
                for topic_id, partitions in topics.items()
            ],
        )

    # Quotas

    def _settle(self, reply: ShareFetchResponse) -> Response:
        """Record the response in the quotas; a response with a throttle has no records."""
        found, quotas = self._found or [], self.services.quotas
        recorded = None
        if quotas.fetch_active:
            size = sum(
                map(len, codec.encode_response(ApiKey.SHARE_FETCH, self.context.api_version)(reply, 0))
            )
            is_slow = quotas.broker.measures_slow_fetches and needs_the_disk(map(_fetched, found))
            recorded = RecordedFetch(size, self.services.clock.ms(), is_slow=is_slow)
            throttle = recorded.record(quotas, self.context)
            if throttle is not None:
                return self._without_records(throttle)
        for each in found:
            each.wanted.log.metrics.bytes_out += len(each.records)
        if self.message.share_session_epoch != FIRST_EPOCH:
            self.session.last_response = [
                *map(Told, self._named()),
                *(Told(key, has_error=True) for key in self.failures),
                *(Told(each.wanted.key, bool(each.error), each.lock is not None) for each in found),
            ]
        if not quotas.request.active:
            return Response(reply)
        withheld = WithheldRecords(self.context.connection, sum(len(each.records) for each in found))

        def withhold(response: Response, throttle: Throttle) -> Response:
            if not withheld.are_withheld(throttle, self.services.clock.ms()):
                return response
            if recorded is not None:
                recorded.unrecord(quotas, self.context)
            for each in found:
                each.wanted.log.metrics.bytes_out -= len(each.records)
            return self._without_records(throttle)

        return Response(reply, withhold=withhold)

    def _without_records(self, throttle: Throttle) -> Response:
        """Give the records back, and return a response that names acknowledged partitions only."""
        for each in self._found or ():
            if each.lock is not None:
                each.wanted.share.withdraw(each.lock)
                self.services.share.wake(each.wanted.share)
        self._found, self._ready, self.failures = [], [], {}
        self.session.last_response = ()
        reply = self._reply(())
        reply.throttle_time_ms = throttle.throttle_ms
        return Response(reply, throttle)


def _part(records: FileSlice, batches: Sequence[LogBatch], acquired: Sequence[AcquiredRange]) -> FileSlice:
    """Return the batches with acquired records, and those between them."""
    first, last = acquired[0].first, acquired[-1].last
    within = [each for each in batches if each.span.last >= first and each.span.first <= last]
    return records.part(within[0].position, within[-1].position + within[-1].size)


def _fetched(found: _Found) -> FetchedPartition:
    log = found.wanted.log
    offset = found.acquired[0].first if found.acquired else 0
    requested = RequestedPartition(log.topic, log.topic_id, log.index, offset, 0, log, found.error)
    return FetchedPartition(requested, found.error, -1, -1, found.records)
