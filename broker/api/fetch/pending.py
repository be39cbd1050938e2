"""A Fetch in progress: how it reads, and how its response is built. (Kafka: handleFetchRequest)

`api.a01_fetch` creates it, and the fast path for a request that waits. It is completed at once or, after a
wait, through `api.requests.delayed_operations`.

Client quotas do not apply to replicas. A throttled partition whose replica is out of sync has no records in
the response while the leader's replication quota is exceeded; the quota always counts the bytes sent for
throttled partitions. Fetching as a replica requires the admin role, or CLUSTER_ACTION by an ACL. (Kafka:
ReplicaManager.shouldLeaderThrottle, KIP-73)
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from broker.api.requests.byte_quotas import RecordedFetch, fetch_max_bytes, needs_the_disk
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response, Sliced
from broker.api.requests.pacing import pieces
from broker.api.requests.services import FetchServices
from broker.api.requests.topics_used import note_read
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, Slices, run_through
from broker.partitions.fetch_sessions import NO_SESSION, FetchSession
from broker.partitions.fetching import (
    CommittedReading,
    DelayedFetch,
    FetchedPartition,
    Reading,
    ReplicaReading,
    RequestedPartition,
)
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import AbortedTransaction as WireAborted
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from broker.protocol.schema import ZERO_UUID, Struct
from broker.quotas.bandwidth import RateSensor
from broker.quotas.throttled import Throttle
from broker.security.acl.acl import Operation


class WithheldRecords:
    """Whether a consumer's fetch over the request quota has records. (KIP-124)

    The decision for one fetch with `size` bytes of records, made while a request quota is set.

    Kafka withholds the records of every fetch over the request quota. Because the throttle is at most one
    window, a client whose fetches exceed its share of a window would never receive a record. Here such a
    client receives records once in the whole span that the quota measures (all of its windows); the throttle
    stays.

    A paced client that always wants more is throttled with every request, for what the one before took. Its
    records are never withheld twice in a row: the time is spent either way.
    """

    __slots__ = ("_connection", "_since_ms", "_size")

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self._size = size
        self._since_ms = connection.withheld_since_ms
        if size:
            connection.withheld_since_ms = 0

    def are_withheld(self, throttle: Throttle, now_ms: int) -> bool:
        """Return whether `throttle` withholds the records, and note since when the connection has none."""
        if self._size:
            since_ms = self._since_ms
            if since_ms and now_ms - since_ms >= _longest_ms(throttle):
                return False
            self._connection.withheld_since_ms = since_ms or now_ms
        return True


def _longest_ms(throttle: Throttle) -> int:
    """Return for how long a connection gets no records."""
    sensor = throttle.sensor
    if isinstance(sensor, RateSensor) and sensor.pace is not None:
        return 0
    window = sensor.rate.window
    return window.samples * window.window_ms


READ_COMMITTED: Final = 1

MANY: Final = 256
"""Partitions above which a fetch is read and answered in slices; ours. Each takes two microseconds."""


class PendingFetch:
    """A Fetch in progress; `incremental` responses omit unchanged partitions. One of many partitions
    (`is_many`) is read and answered in slices, and what it leaves behind is freed in slices.
    """

    __slots__ = ("context", "incremental", "is_many", "reading", "recorded", "services", "session")

    is_replica: ClassVar[bool] = False

    def __init__(
        self,
        services: FetchServices,
        context: RequestContext,
        reading: Reading,
        session: FetchSession | None,
        incremental: bool,
    ) -> None:
        self.services = services
        self.context = context
        self.reading = reading
        self.session = session
        self.incremental = incremental
        self.is_many = len(reading.requested) > MANY
        self.recorded: RecordedFetch | None = None
        """What the fetch quotas have recorded."""

    def response(self) -> Outcome:
        """Return the response after a wait: read the partitions again first."""
        if self.is_many:
            return Sliced(self._read_and_respond(), None)
        self.reading.read()
        return self.respond()

    def respond(self) -> Response:
        """Build the response from few partitions that have just been read."""
        found, session, quotas = self.reading.found, self.session, self.services.quotas
        session_id = NO_SESSION
        if session is not None:
            session_id = session.id
            included = session.update_response_data(found)
            if self.incremental:
                found = included
        reply = reply_for(found, session_id)
        if quotas.fetch_active or self.is_replica:
            throttle = run_through(self.record(reply, found))
            if throttle is not None:
                return self.without_records(throttle, found)
        self.reading.count_sent()
        if quotas.request.active and not self.is_replica:
            return Response(reply, withhold=UnsettledFetch(self, found).withhold)
        return Response(reply)

    def respond_in_slices(self) -> Slices[Response]:
        """`respond` from many partitions, which are freed in slices too."""
        reading, session, quotas = self.reading, self.session, self.services.quotas
        read = found = reading.found
        session_id = NO_SESSION
        if session is not None:
            session_id = session.id
            included: list[FetchedPartition] = []
            for some in pieces(read):
                included += session.update_response_data(list(some))
                yield None
            if self.incremental:
                found = included
        reply = yield from reply_in_slices(found, session_id)
        if quotas.fetch_active or self.is_replica:
            throttle = yield from self.record(reply, found)
            if throttle is not None:
                return self.without_records(throttle, found)
        for some in pieces(read):
            reading.count_sent(some)
            yield None
        if quotas.request.active and not self.is_replica:  # it may still withhold the records
            return Response(reply, withhold=UnsettledFetch(self, found).withhold)
        for items in (found, read, reading.requested):
            yield from freed(items)
        return Response(reply)

    def _read_and_respond(self) -> Slices[Outcome]:
        yield from read_in_slices(self.reading)
        return (yield from self.respond_in_slices())

    def record(self, reply: FetchResponse, found: list[FetchedPartition]) -> Slices[Throttle | None]:
        """Record the response in the quotas at response time, and return the throttle, if any."""
        quotas = self.services.quotas
        version = self.context.api_version
        size = (yield from size_in_slices(reply, version)) if self.is_many else size_of(reply, version)
        is_slow = quotas.broker.measures_slow_fetches and (yield from self._needs_the_disk(found))
        self.recorded = RecordedFetch(size, self.services.clock.ms(), is_slow=is_slow)
        return self.recorded.record(quotas, self.context)

    def without_records(self, throttle: Throttle, found: list[FetchedPartition]) -> Response:
        """Return the empty response of a throttled fetch. (Kafka: getThrottledResponse)

        The session continues as if nothing had been found: the next response includes its partitions again.
        A session that this fetch created is closed.
        """
        session_id = NO_SESSION
        session, sessions, reading = self.session, self.services.sessions, self.reading
        if session is None or not self.incremental:
            if session is not None:
                sessions.close(session.id)
            if self.is_many:
                sessions.discard(found)
        else:
            session_id = session.id
            if self.is_many:
                session.unsent += found
            else:
                session.undo_response_data(found)
        if self.is_many:
            assert isinstance(reading.requested, list)
            sessions.discard(reading.found)
            sessions.discard(reading.requested)
        reading.drop()
        return Response(empty_reply(throttle.throttle_ms, session_id), throttle)

    def discard(self, reply: Struct) -> None:
        """Free a reply whose records are withheld."""
        if self.is_many:
            self.services.sessions.discard(reply)

    def _needs_the_disk(self, found: list[FetchedPartition]) -> Slices[bool]:
        for some in pieces(found):
            if needs_the_disk(some):
                return True
            if self.is_many:
                yield None
        return False


class PendingReplicaFetch(PendingFetch):
    """A replica's fetch, exempt from client quotas and recorded in the leader's replication quota."""

    __slots__ = ()

    is_replica: ClassVar[bool] = True

    def record(self, reply: FetchResponse, found: list[FetchedPartition]) -> Slices[Throttle | None]:
        """Record the throttled partitions; the response is sent all the same."""
        quota = self.services.replication.leader
        marked: list[FetchedPartition] = []
        for some in pieces(found):
            for each in some:
                log = each.requested.log
                if log is not None and quota.is_marked(log.topic, log.index):
                    marked.append(each)
            if self.is_many:
                yield None
        if marked:
            if len(marked) != len(found):
                sliced = reply_in_slices(marked, reply.session_id)
                reply = (yield from sliced) if self.is_many else reply_for(marked, reply.session_id)
            version = self.context.api_version
            size = (yield from size_in_slices(reply, version)) if self.is_many else size_of(reply, version)
            quota.record(size, self.services.clock.ms())
        return None


class UnsettledFetch:
    """A consumer's fetch while a request quota is set, which may still withhold its records."""

    __slots__ = ("_found", "_pending", "_records")

    def __init__(self, pending: PendingFetch, found: list[FetchedPartition]) -> None:
        self._pending = pending
        self._found = found
        self._records = WithheldRecords(pending.context.connection, pending.reading.size)

    def withhold(self, response: Response, throttle: Throttle) -> Response:
        """Return the response to send instead of `response`, which has the records."""
        pending = self._pending
        services = pending.services
        if not self._records.are_withheld(throttle, services.clock.ms()):
            return response
        if pending.recorded is not None:
            pending.recorded.unrecord(services.quotas, pending.context)
        pending.reading.count_unsent()
        pending.discard(response.reply)
        return pending.without_records(throttle, self._found)


def replica_of(message: FetchRequest) -> int:
    """Return the fetching broker's id, or negative for a consumer. (KIP-903: `replica_state` since v15)"""
    state = message.replica_state
    return message.replica_id if state is None or message.replica_id >= 0 else state.replica_id


def replica_reading(
    replica: int, requested: list[RequestedPartition], max_bytes: int, services: FetchServices
) -> Reading:
    """Return a reading that throttles every replica but this broker, the only one in sync."""
    if replica == services.node_id:
        return Reading(requested, max_bytes)
    quota, clock = services.replication.leader, services.clock
    return ReplicaReading(requested, max_bytes, quota.is_marked, lambda: quota.is_exceeded(clock.ms()))


def refuse_unprivileged(
    requested: Sequence[RequestedPartition], replica: int, context: RequestContext, services: FetchServices
) -> None:
    """Set TOPIC_AUTHORIZATION_FAILED for every partition of a replica's fetch, unless the principal
    administers the cluster; of a consumer's, for those of topics that it may not read.
    """
    security = services.security
    if replica >= 0:
        if not security.is_broker(context):
            for each in requested:
                each.log, each.error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif security.authorizer is not None:
        last: tuple[str, bytes] | None = None
        allowed = True
        for each in requested:
            if (each.topic, each.topic_id) != last:
                last = (each.topic, each.topic_id)
                name = _name_of(each, services)
                allowed = name is None or security.allows_topic(context, Operation.READ, name)
                if allowed and each.log is not None and name is not None:
                    note_read(context.connection, name)
            if not allowed:
                each.log, each.error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _name_of(requested: RequestedPartition, services: FetchServices) -> str | None:
    """Return the name of a topic; None for an unknown id."""
    if requested.topic_id == ZERO_UUID:
        return requested.topic
    hosted = services.partitions.by_id.get(requested.topic_id)
    return None if hosted is None else hosted.name


def pending_fetch(
    message: FetchRequest,
    replica: int,
    requested: list[RequestedPartition],
    session: FetchSession | None,
    incremental: bool,
    context: RequestContext,
    services: FetchServices,
) -> PendingFetch:
    """Return a fetch that has read nothing yet; `replica` is negative for a consumer."""
    max_bytes = min(message.max_bytes, services.max_bytes)
    if replica >= 0:
        reading = replica_reading(replica, requested, max_bytes, services)
        return PendingReplicaFetch(services, context, reading, session, incremental)
    if services.quotas.fetch_active:
        max_bytes = fetch_max_bytes(services.quotas, context, max_bytes)
    reading = reading_of(requested, max_bytes, is_committed=message.isolation_level == READ_COMMITTED)
    return PendingFetch(services, context, reading, session, incremental)


def reading_of(requested: list[RequestedPartition], max_bytes: int, *, is_committed: bool) -> Reading:
    """Return a consumer's reading."""
    return CommittedReading(requested, max_bytes) if is_committed else Reading(requested, max_bytes)


def wait(pending: PendingFetch, max_wait_ms: int, min_bytes: int) -> Outcome:
    """Let a fetch of few partitions, which have been read, wait for `min_bytes`."""
    pending.reading.drop()
    services, context = pending.services, pending.context
    operation = DelayedFetch(max_wait_ms, pending, min_bytes)
    keys = [each.log for each in pending.reading.requested if each.log is not None]
    if services.fetches.try_complete_else_watch(operation, keys, context.now_ms):
        return pending.response()
    context.connection.waiting = operation
    return DELAYED


def read_in_slices(reading: Reading) -> Slices[None]:
    reading.begin()
    for some in pieces(reading.requested):
        reading.read(some)
        yield None


def freed(items: Sequence[object]) -> Slices[None]:
    """Free the elements in slices rather than all at once with the list."""
    assert isinstance(items, list)
    while items:
        del items[-SLICE:]
        yield None


def reply_for(found: list[FetchedPartition], session_id: int) -> FetchResponse:
    """Return one entry per partition; consecutive partitions of a topic share one topic entry."""
    responses: list[FetchableTopicResponse] = []
    last: FetchableTopicResponse | None = None
    for each in found:
        requested = each.requested
        if last is None or last.topic != requested.topic or last.topic_id != requested.topic_id:
            last = FetchableTopicResponse(requested.topic, requested.topic_id, [])
            responses.append(last)
        last.partitions.append(
            PartitionData(
                requested.partition,
                each.error,
                each.high_watermark,
                each.last_stable_offset,
                each.log_start_offset,
                aborted_transactions=_aborted(each),
                records=each.records,
            )
        )
    return FetchResponse(0, ErrorCode.NONE, session_id, responses)


def _aborted(found: FetchedPartition) -> list[WireAborted] | None:
    """Return the aborted transactions as the response names them; null without any, as on the fast path."""
    if not found.aborted:
        return None
    return [WireAborted(each.producer_id, each.first_offset) for each in found.aborted]


def reply_in_slices(found: list[FetchedPartition], session_id: int) -> Slices[FetchResponse]:
    """Build `reply_for` for many partitions, in slices."""
    whole = FetchResponse(0, ErrorCode.NONE, session_id, [])
    for some in pieces(found):
        responses = reply_for(list(some), session_id).responses
        last = whole.responses[-1] if whole.responses else None
        first = responses[0] if responses else None
        if last and first and last.topic == first.topic and last.topic_id == first.topic_id:
            last.partitions += responses.pop(0).partitions
        whole.responses += responses
        yield None
    return whole


def size_in_slices(reply: FetchResponse, version: int) -> Slices[int]:
    """Compute `size_of` for many partitions, in slices."""
    size = 0
    for some in pieces((yield from codec.encode_response_in_slices(ApiKey.FETCH, version)(reply, 0))):
        size += sum(map(len, some))
        yield None
    return size


def empty_reply(throttle_ms: int, session_id: int) -> FetchResponse:
    """Return the response of a throttled fetch, without partitions."""
    return FetchResponse(throttle_ms, ErrorCode.NONE, session_id, [])


def size_of(reply: FetchResponse, version: int) -> int:
    """Return the size of the whole frame in bytes, which the fetch quota records."""
    return sum(len(part) for part in codec.encode_response(ApiKey.FETCH, version)(reply, 0))
