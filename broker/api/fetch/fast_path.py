"""The fast path of Fetch: consumers' requests that records are ready for.

One pass over the frame finds the log and the offset of each partition, a second one reads the logs, a third
writes the response between the records, which pass from the page cache to the socket. A request that finds
too little waits as a `PendingFetch`. It serves requests without a session, and incremental requests of a
session that change offsets only (KIP-227). `a01_fetch` handles requests that fail, open a session or log
files, may exceed a limit of slow fetches, name many partitions, or read committed records where a transaction
is ongoing or was aborted.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.api.fetch.pending import PendingFetch, WithheldRecords, empty_reply, reading_of, wait
from broker.api.requests.byte_quotas import RecordedFetch, fetch_max_bytes
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.fast_path import INT32, REFUSALS, Prologues, TopicReader, Unusual
from broker.api.requests.outcome import EncodedResponse, Outcome, Response
from broker.api.requests.services import FetchServices
from broker.api.requests.topics_used import note_read
from broker.common.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.slice import MAX_COPIED_BYTES, FileSlice
from broker.partitions.fetch_sessions import FINAL_EPOCH, NO_SESSION, CachedPartition, FetchSession
from broker.partitions.fetching import NOTHING, SENT_TOGETHER, RequestedPartition
from broker.partitions.partitions import LEADER_EPOCH, HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.client_id import client_id_and_body
from broker.protocol.schema import ZERO_UUID, Buffer
from broker.protocol.varint import uvarint
from broker.quotas.throttled import Throttle
from broker.security.acl.acl import Operation

LOG_START_SINCE: Final = 5
"""First version whose response has the log start offset; the full handler serves older ones."""

MAX_PARTITIONS: Final = 128
"""Partitions read in one go, of the request or of its session; ours. Each takes two microseconds."""

MAX_BYTES: Final = 8192
"""Longest request in bytes; ours."""

ISOLATION_BYTES: Final = 1
READ_COMMITTED: Final = 1

_SESSION: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_EPOCHS: Final = (-1, LEADER_EPOCH)

PartitionRead = tuple[int, PartitionLog, int, int]
"""Index of a partition, its log, the fetch offset, and the maximum number of bytes."""

Found = tuple[int, PartitionLog, FileSlice | bytes]
"""Index of a partition, its log, and the records at its offset."""

TopicRecords = tuple[bytes, list[Found]]
"""The head of a topic in the response, and its partitions."""


class FetchPrologue(NamedTuple):
    """The fields of a Fetch before its first partition, which is at `end`.

    `wait_ms` and `min_bytes` are 0 for a request that does not wait. `topics` is the number of topics, and
    `counted` its bytes; `first` is the first topic, with its head and the number of its partitions.
    `is_committed`: the client reads committed records only.
    """

    client_id: str | None
    session_id: int
    epoch: int
    wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: int
    counted: bytes
    first: tuple[HostedTopic, bytes, int] | None
    end: int
    is_committed: bool


class FetchFastPath:
    """The fast path of one version on one listener."""

    __slots__ = (
        "_authorizes",
        "_has_epoch",
        "_has_rack",
        "_has_sessions",
        "_is_flexible",
        "_layout",
        "_limits",
        "_partition",
        "_prologues",
        "_services",
        "_topics",
        "_uses_ids",
        "_usual_end",
        "_version",
    )

    def __init__(self, version: int, services: FetchServices) -> None:
        self._version = version
        self._services = services
        self._authorizes = services.security.authorizer is not None
        self._has_sessions = version >= 7
        self._has_epoch = version >= 9
        self._has_rack = version >= 11
        self._is_flexible = version >= 12
        self._uses_ids = version >= 13
        self._topics = TopicReader(
            services.partitions, is_flexible=self._is_flexible, uses_ids=self._uses_ids
        )
        # No forgotten partitions, an empty rack, no tagged fields.
        self._usual_end = b"\1\1\0" if version >= 12 else bytes(6 if version == 11 else 4)
        self._layout = ResponseLayout(version)
        self._prologues: Prologues[FetchPrologue] = Prologues()
        # The replica id, which is a tagged field from version 15 on; most ms to wait; least and most bytes.
        self._limits = struct.Struct(">iiii" if version < 15 else ">iii")
        # Index, leader epoch, offset, most bytes, number of tagged fields.
        self._partition = struct.Struct(
            ">iiq12xiB" if self._is_flexible else ">iiq8xi" if self._has_epoch else ">iq8xi"
        )

    def forget(self) -> None:
        self._prologues.forget()

    def serve(self, frame: Buffer, context: RequestContext) -> Outcome | None:
        """Return the response of a usual request, or None to leave it to the full handler."""
        if self._version < LOG_START_SINCE or len(frame) > MAX_BYTES:
            return None
        try:
            return self._serve(frame, context)
        except (ApiError, *REFUSALS):
            return None

    def _serve(self, frame: Buffer, context: RequestContext) -> Outcome:
        """Raises Unusual, ApiError from reading a log, and others for a truncated frame."""
        prologue = self._prologues.find(frame, context.connection)
        if prologue is None:
            prologue = self._read_prologue(frame, context.connection)
        context.client_id = prologue.client_id
        max_bytes = prologue.max_bytes
        quotas = self._services.quotas
        if quotas.fetch_active:
            if quotas.broker.measures_slow_fetches:
                raise Unusual
            max_bytes = fetch_max_bytes(quotas, context, max_bytes)
        # Below this, the request waits.
        least = min(prologue.min_bytes, max_bytes)
        if prologue.session_id == NO_SESSION:
            return self._serve_full(frame, prologue, context, max_bytes, least)
        return self._serve_incremental(frame, prologue, context, max_bytes, least)

    def _read_prologue(self, frame: Buffer, connection: Connection) -> "FetchPrologue":
        client_id, at = client_id_and_body(frame, self._is_flexible)
        *replica, wait_ms, min_bytes, max_bytes = self._limits.unpack_from(frame, at)
        at += self._limits.size
        is_committed = frame[at] == READ_COMMITTED
        at += ISOLATION_BYTES
        session_id, epoch = NO_SESSION, FINAL_EPOCH
        if self._has_sessions:
            session_id, epoch = _SESSION.unpack_from(frame, at)
            at += _SESSION.size
        if (replica and replica[0] >= 0) or (session_id == NO_SESSION and epoch != FINAL_EPOCH):
            raise Unusual
        topics, counted = self._topics.counted(frame, at)
        at += len(counted)
        first = None
        if topics:
            first = self._topic(frame, at)
            if not self._authorizes:
                note_read(connection, first[0].name)
            at += len(first[1])
        prologue = FetchPrologue(
            client_id,
            session_id,
            epoch,
            max(wait_ms, 0),
            min_bytes if wait_ms > 0 else 0,
            min(max_bytes, self._services.max_bytes),
            topics,
            counted,
            first,
            at,
            is_committed,
        )
        if session_id == NO_SESSION:  # the epoch of a session differs in each request
            self._prologues.add(frame, at, connection, prologue)
        return prologue

    def _topic(self, frame: Buffer, at: int) -> tuple[HostedTopic, bytes, int]:
        """Return the topic at `at`, its head, and the number of its partitions."""
        topic = self._topics.read(frame, at)
        if topic[2] > MAX_PARTITIONS:
            raise Unusual
        return topic

    def _named(
        self, frame: Buffer, prologue: "FetchPrologue"
    ) -> list[tuple[HostedTopic, bytes, list[PartitionRead]]]:
        """Return the topics that the request names, with their heads and their partitions."""
        named: list[tuple[HostedTopic, bytes, list[PartitionRead]]] = []
        at = prologue.end
        partitions = 0
        for number in range(prologue.topics):
            if number or prologue.first is None:
                hosted, head, count = self._topic(frame, at)
                at += len(head)
            else:
                hosted, head, count = prologue.first
            partitions += count
            if partitions > MAX_PARTITIONS:
                raise Unusual
            wanted, at = self._wanted(frame, at, count, hosted)
            named.append((hosted, head, wanted))
        self._check_end(frame, at)
        return named

    def _serve_full(
        self,
        frame: Buffer,
        prologue: "FetchPrologue",
        context: RequestContext,
        max_bytes: int,
        least: int,
    ) -> Outcome:
        """Serve a request without a session: the response has every partition that the request names."""
        reads = _Reads(max_bytes, prologue.is_committed)
        found: list[TopicRecords] = []
        named = self._named(frame, prologue)
        for hosted, head, wanted in named:
            if self._authorizes:
                self._check_allowed(hosted.name, context)
            elif prologue.topics > 1:
                note_read(context.connection, hosted.name)
            found.append(
                (head, [(index, log, reads.read(log, offset, limit)) for index, log, offset, limit in wanted])
            )
        if not reads.count:
            raise Unusual
        if reads.size < least:
            requested = [
                RequestedPartition(*self._key(hosted), index, offset, limit, log, ErrorCode.NONE)
                for hosted, _, wanted in named
                for index, log, offset, limit in wanted
            ]
            return self._wait(prologue, context, requested, max_bytes, least, None)
        parts, size = self._layout.encode(context.correlation_id, NO_SESSION, prologue.counted, found)
        recorded, throttle = self._record(context, size)
        for _, partitions in found:
            for _, log, records in partitions:
                metrics = log.metrics
                metrics.reads += 1
                if throttle is None:
                    metrics.bytes_out += len(records)
        if throttle is not None:
            return Response(empty_reply(throttle.throttle_ms, NO_SESSION), throttle)
        if not self._services.quotas.request.active:
            return EncodedResponse(parts, None)
        logs = [(log, len(records)) for _, partitions in found for _, log, records in partitions]
        sent = _SentRecords(self._services, context, recorded, logs)
        return EncodedResponse(parts, None, self._layout.throttle_at, sent.withhold)

    def _serve_incremental(
        self,
        frame: Buffer,
        prologue: "FetchPrologue",
        context: RequestContext,
        max_bytes: int,
        least: int,
    ) -> Outcome:
        """Serve a session's request: the response has the partitions with changes. The session is
        changed last.
        """
        session = self._services.sessions.usual(
            prologue.session_id, prologue.epoch, uses_topic_ids=self._uses_ids
        )
        if session is None or len(session.partitions) > MAX_PARTITIONS:
            raise Unusual
        changes: dict[CachedPartition, PartitionRead] = {}
        for hosted, _, wanted in self._named(frame, prologue):
            name, topic_id = self._key(hosted)
            for each in wanted:
                cached = session.partitions.get((name, topic_id, each[0]))
                if cached is None:
                    raise Unusual  # the session's partitions change
                changes[cached] = each
        reads = _Reads(max_bytes, prologue.is_committed)
        found: list[tuple[CachedPartition, PartitionLog, FileSlice | bytes]] = []
        for cached in session.partitions.values():
            requested = cached.requested
            log, offset, limit = requested.log, requested.offset, requested.max_bytes
            changed = changes.get(cached)
            if changed is not None:
                _, _, offset, limit = changed
            if log is None or requested.error or log.offline is not None or log.deleted:
                raise Unusual
            if self._authorizes:
                self._check_allowed(log.topic, context)
            found.append((cached, log, reads.read(log, offset, limit)))
        if reads.size < least:
            if not found:
                raise Unusual
            self._advance(session, changes, context)
            return self._wait(prologue, context, session.requested(), max_bytes, least, session)
        included = [
            each
            for each in found
            if each[0].changes(len(each[2]), each[1].high_watermark, each[1].log_start_offset)
        ]
        topics = self._layout.grouped(included)
        parts, size = self._layout.encode(
            context.correlation_id, session.id, self._layout.count(len(topics)), topics
        )
        recorded, throttle = self._record(context, size)
        for _, log, records in found:
            log.metrics.reads += 1
            if throttle is None:
                log.metrics.bytes_out += len(records)
        self._advance(session, changes, context)
        if throttle is not None:
            for cached, _, _ in included:
                cached.high_watermark = -1  # so that the next response includes it
            return Response(empty_reply(throttle.throttle_ms, session.id), throttle)
        for cached, log, records in included:
            session.note_sent(cached, len(records), log.high_watermark, log.log_start_offset)
        if not self._services.quotas.request.active:
            return EncodedResponse(parts, None)
        logs = [(log, len(records)) for _, log, records in found]
        sent_partitions = [(cached, len(records)) for cached, _, records in included]
        sent = _SentRecords(self._services, context, recorded, logs, session, sent_partitions)
        return EncodedResponse(parts, None, self._layout.throttle_at, sent.withhold)

    def _key(self, hosted: HostedTopic) -> tuple[str, bytes]:
        """Return the name and the id of a topic as requests have them: one of the two."""
        return ("", hosted.topic_id) if self._uses_ids else (hosted.name, ZERO_UUID)

    def _advance(
        self, session: FetchSession, changes: dict[CachedPartition, PartitionRead], context: RequestContext
    ) -> None:
        """Note in the session what the request changes."""
        self._services.sessions.advance(session, context.now_ms)
        for cached, (index, log, offset, limit) in changes.items():
            old = cached.requested
            cached.requested = RequestedPartition(
                old.topic, old.topic_id, index, offset, limit, log, ErrorCode.NONE
            )

    def _wait(
        self,
        prologue: "FetchPrologue",
        context: RequestContext,
        requested: list[RequestedPartition],
        max_bytes: int,
        least: int,
        session: FetchSession | None,
    ) -> Outcome:
        """Let a request wait that has been read and found less than `least` bytes."""
        for each in requested:
            assert each.log is not None
            each.log.metrics.reads += 1
        context.api_key, context.api_version = ApiKey.FETCH, self._version
        reading = reading_of(requested, max_bytes, is_committed=prologue.is_committed)
        pending = PendingFetch(self._services, context, reading, session, session is not None)
        return wait(pending, prologue.wait_ms, least)

    def _wanted(
        self, frame: Buffer, at: int, count: int, hosted: HostedTopic
    ) -> tuple[list[PartitionRead], int]:
        """Return the partitions of a topic that start at `at`, and the position after them."""
        unpack, step, logs = self._partition.unpack_from, self._partition.size, hosted.open_logs
        wanted: list[PartitionRead] = []
        for _ in range(count):
            epoch, tags = -1, 0
            if self._is_flexible:
                index, epoch, offset, limit, tags = unpack(frame, at)
            elif self._has_epoch:
                index, epoch, offset, limit = unpack(frame, at)
            else:
                index, offset, limit = unpack(frame, at)
            at += step
            log = logs.get(index)
            if log is None or log.offline is not None or log.deleted or tags or epoch not in _EPOCHS:
                raise Unusual
            wanted.append((index, log, offset, limit))
        if self._is_flexible:
            if frame[at]:
                raise Unusual
            at += 1
        return wanted, at

    def _check_allowed(self, topic: str, context: RequestContext) -> None:
        """Raise Unusual if the client may not read a topic; the full handler then refuses it."""
        if not self._services.security.allows_topic(context, Operation.READ, topic, logs=False):
            raise Unusual
        note_read(context.connection, topic)

    def _check_end(self, frame: Buffer, at: int) -> None:
        """Raise Unusual if the session forgets partitions, for a long rack, and for a tagged field."""
        if frame[at:] == self._usual_end:
            return
        if self._has_sessions:
            forgotten, counted = self._topics.counted(frame, at)
            at += len(counted)
            if forgotten:
                raise Unusual
        if self._has_rack:
            self._topics.check_text_at_end(frame, at)

    def _record(self, context: RequestContext, size: int) -> tuple[RecordedFetch | None, Throttle | None]:
        """Record a response of `size` bytes in the client's quota. Return what was recorded, if anything, or
        a throttle, with which the response has no records.
        """
        quotas = self._services.quotas
        if not quotas.fetch_active:
            return None, None
        recorded = RecordedFetch(size, self._services.clock.ms(), is_slow=False)
        return recorded, recorded.record(quotas, context)


class _SentRecords:
    """The changes that a response has made before the request quota may withhold its records: the fetch
    quota, the bytes sent by log, and the session.
    """

    __slots__ = ("_context", "_logs", "_recorded", "_records", "_sent_partitions", "_services", "_session")

    def __init__(
        self,
        services: FetchServices,
        context: RequestContext,
        recorded: RecordedFetch | None,
        logs: Sequence[tuple[PartitionLog, int]],
        session: FetchSession | None = None,
        sent_partitions: Sequence[tuple[CachedPartition, int]] = (),
    ) -> None:
        self._services = services
        self._context = context
        self._recorded = recorded
        self._logs = logs
        self._session = session
        self._sent_partitions = sent_partitions
        size = 0
        for _, sent in logs:
            size += sent
        self._records = WithheldRecords(context.connection, size)

    def withhold(self, throttle: Throttle) -> Response | None:
        """Undo the changes and return a response without records, or None if the client gets them."""
        services, session = self._services, self._session
        if not self._records.are_withheld(throttle, services.clock.ms()):
            return None
        if self._recorded is not None:
            self._recorded.unrecord(services.quotas, self._context)
        for log, sent in self._logs:
            log.metrics.bytes_out -= sent
        if session is None:
            return Response(empty_reply(throttle.throttle_ms, NO_SESSION), throttle)
        for cached, sent in reversed(self._sent_partitions):
            session.undo_sent(cached, sent)
        return Response(empty_reply(throttle.throttle_ms, session.id), throttle)


class _Reads:
    """The reads of one request, in its order, with the rules of `partitions.fetching.Reading`."""

    __slots__ = ("_is_committed", "_left", "count", "size")

    def __init__(self, max_bytes: int, is_committed: bool) -> None:
        self._left = max_bytes
        self._is_committed = is_committed
        self.count = 0
        self.size = 0

    def read(self, log: PartitionLog, offset: int, limit: int) -> FileSlice | bytes:
        """Return the records at `offset`.

        Raises ApiError, and Unusual if some of them may not be committed.
        """
        if self._is_committed and (log.has_aborted or log.last_stable_offset != log.high_watermark):
            raise Unusual
        total, left = self.size, self._left
        self.count += 1
        if offset == log.high_watermark or (total and left <= 0):
            return NOTHING
        records = log.read(offset, limit if limit < left else left, min_one_batch=total == 0)
        size = records.remaining
        if total and size and (total + size > MAX_COPIED_BYTES or self.count > SENT_TOGETHER):
            log.check_readable(records)
            size = records.remaining
        self.size = total + size
        self._left = left - size
        return records


class ResponseLayout:
    """The layout of responses without errors in one version."""

    __slots__ = (
        "_frame",
        "_has_sessions",
        "_is_flexible",
        "_last_length",
        "_no_transactions",
        "_partition",
        "_uses_ids",
        "throttle_at",
    )

    def __init__(self, version: int) -> None:
        self._has_sessions = version >= 7
        self._is_flexible = version >= 12
        self._uses_ids = version >= 13
        # Size, correlation id, throttle time; error and session id from version 7 on.
        self._frame = struct.Struct(">iixihi" if self._is_flexible else ">iiihi" if version >= 7 else ">iii")
        self.throttle_at = 9 if self._is_flexible else 8
        # Index, error, high watermark, last stable offset, log start offset; aborted transactions, which is a
        # null array, and the preferred read replica.
        self._no_transactions = (
            b"\0\xff\xff\xff\xff" if version >= 12 else b"\xff" * (8 if version >= 11 else 4)
        )
        self._partition = struct.Struct(f">ihqqq{len(self._no_transactions)}s")
        self._last_length: tuple[int, bytes] = (-1, b"")

    def count(self, number: int) -> bytes:
        """Encode the size of an array."""
        return uvarint(number + 1) if self._is_flexible else INT32.pack(number)

    def grouped(
        self, found: Sequence[tuple[CachedPartition, PartitionLog, FileSlice | bytes]]
    ) -> list[TopicRecords]:
        """Return the partitions by topic; one topic may occur more than once, as in the session's order."""
        topics: list[tuple[bytes, list[Found]]] = []
        last: tuple[str, bytes] | None = None
        for cached, log, records in found:
            requested = cached.requested
            topic = requested.topic, requested.topic_id
            if topic != last:
                last = topic
                topics.append((self._name(*topic), []))
            topics[-1][1].append((requested.partition, log, records))
        return [(name + self.count(len(partitions)), partitions) for name, partitions in topics]

    def _name(self, topic: str, topic_id: bytes) -> bytes:
        if self._uses_ids:
            return topic_id
        name = topic.encode()
        return uvarint(len(name) + 1) + name if self._is_flexible else _INT16.pack(len(name)) + name

    def encode(
        self, correlation_id: int, session_id: int, counted: bytes, topics: Sequence[TopicRecords]
    ) -> tuple[list[bytes | FileSlice], int]:
        """Return the parts of the frame, and their bytes. `counted` encodes the number of topics."""
        pack, no_transactions = self._partition.pack, self._no_transactions
        is_flexible = self._is_flexible
        tags = b"\0" if is_flexible else b""
        parts: list[bytes | FileSlice] = []
        size = 0
        head = counted
        last, encoded = self._last_length
        for topic, partitions in topics:
            head += topic
            for index, log, records in partitions:
                length = len(records)
                end = log.high_watermark
                if length != last:
                    # A consumer that catches up gets full responses of equal size.
                    last = length
                    encoded = uvarint(length + 1) if is_flexible else INT32.pack(length)
                head += (
                    pack(index, 0, end, log.last_stable_offset, log.log_start_offset, no_transactions)
                    + encoded
                )
                if length:
                    assert isinstance(records, FileSlice)
                    size += len(head) + length
                    parts += (head, records)
                    head = tags
                else:
                    head += tags
            head += tags
        self._last_length = last, encoded
        head += tags
        size += len(head) + self._frame.size
        if self._has_sessions:
            frame = self._frame.pack(size - INT32.size, correlation_id, 0, 0, session_id)
        else:
            frame = self._frame.pack(size - INT32.size, correlation_id, 0)
        if not parts:
            return [frame + head], size
        first = parts[0]
        assert isinstance(first, bytes)
        parts[0] = frame + first
        if head:
            parts.append(head)
        return parts, size
