"""A Fetch in progress: how it reads, and how its response is built. (Kafka: handleFetchRequest)

`api.a01_fetch` and `api.fetch.many` create it and complete it at once or, after a wait, through
`api.requests.delayed_operations`.

Client quotas do not apply to replicas. A throttled partition whose replica is out of sync has no records in
the response while the leader's replication quota is exceeded; the quota always counts the bytes sent for
throttled partitions. Fetching as a replica requires the admin role, or CLUSTER_ACTION by an ACL. (Kafka:
ReplicaManager.shouldLeaderThrottle, KIP-73)
"""

from collections.abc import Sequence
from typing import Final

from broker.api.fetch.withheld_records import WithheldRecords
from broker.api.requests.byte_quotas import RecordedFetch, fetch_max_bytes, needs_the_disk
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Response, Sliced
from broker.api.requests.pacing import pieces
from broker.api.requests.services import FetchServices
from broker.common.errors import ErrorCode
from broker.partitions.fetch_sessions import NO_SESSION, FetchSession
from broker.partitions.fetching import (
    CommittedReading,
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
from broker.quotas.throttled import Throttle
from broker.records.slices import SLICE, Slices
from broker.security.acl.acl import Operation

READ_COMMITTED: Final = 1


class PendingFetch:
    """A Fetch in progress; `incremental` responses omit unchanged partitions."""

    __slots__ = ("context", "incremental", "reading", "services", "session")

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

    def response(self, *, fresh: bool = False) -> Response | Sliced:
        """Build the response; `fresh` means that the partitions have just been read."""
        reading = self.reading
        if not fresh:
            reading.read()
        found = reading.found
        session = self.session
        if session is not None:
            news = session.news(found)
            if self.incremental:
                found = news
        session_id = session.id if session is not None else NO_SESSION
        response = self.settle(reply_for(found, session_id), found)
        if response.throttle is None:
            reading.count_sent()
        return response

    def settle(self, reply: FetchResponse, found: list[FetchedPartition]) -> Response:
        """Record the response in the quotas at response time; a response with a throttle has no records."""
        quotas = self.services.quotas
        recorded = None
        if quotas.fetch_active:
            size = size_of(reply, self.context.api_version)
            is_slow = quotas.broker.measures_slow_fetches and needs_the_disk(found)
            recorded = RecordedFetch(size, self.services.clock.ms(), is_slow=is_slow)
            throttle = recorded.record(quotas, self.context)
            if throttle is not None:
                return self.without_records(throttle, found)
        if quotas.request.active:
            return Response(reply, withhold=UnsettledFetch(self, found, recorded).withhold)
        return Response(reply)

    def settle_in_slices(self, reply: FetchResponse, found: list[FetchedPartition]) -> Slices[Response]:
        """`settle` for many partitions, in slices."""
        quotas = self.services.quotas
        recorded = None
        if quotas.fetch_active:
            size = yield from size_in_slices(reply, self.context.api_version)
            is_slow = quotas.broker.measures_slow_fetches and (yield from _needs_the_disk_in_slices(found))
            recorded = RecordedFetch(size, self.services.clock.ms(), is_slow=is_slow)
            throttle = recorded.record(quotas, self.context)
            if throttle is not None:
                return (yield from self._without_records_in_slices(throttle, found))
        if quotas.request.active:
            return Response(reply, withhold=UnsettledFetch(self, found, recorded).withhold)
        return Response(reply)

    def without_records(self, throttle: Throttle, found: list[FetchedPartition]) -> Response:
        """Return the empty response of a throttled fetch. (Kafka: getThrottledResponse)

        The session continues as if nothing had been found; a session that this fetch created is closed.
        """
        session_id = NO_SESSION
        session = self.session
        if session is not None:
            if self.incremental:
                session.untold(found)
                session_id = session.id
            else:
                self.services.sessions.close(session.id)
        self.reading.drop()
        return Response(empty_reply(throttle.throttle_ms, session_id), throttle)

    def discard(self, reply: Struct) -> None:
        """Free a reply whose records are withheld."""

    def _without_records_in_slices(
        self, throttle: Throttle, found: list[FetchedPartition]
    ) -> Slices[Response]:
        if self.session is not None and self.incremental:
            for at in range(len(found), 0, -SLICE):
                self.session.untold(found[max(at - SLICE, 0) : at])
                yield None
        return self.without_records(throttle, [])


class UnsettledFetch:
    """A consumer's fetch while a request quota is set, which may still withhold its records.

    `recorded` is what the fetch quotas recorded, or None.
    """

    __slots__ = ("_found", "_pending", "_recorded", "_records")

    def __init__(
        self,
        pending: PendingFetch,
        found: list[FetchedPartition],
        recorded: RecordedFetch | None,
    ) -> None:
        self._pending = pending
        self._found = found
        self._recorded = recorded
        self._records = WithheldRecords(pending.context.connection, pending.reading.size)

    def withhold(self, response: Response, throttle: Throttle) -> Response:
        """Return the response to send instead of `response`, which has the records."""
        pending = self._pending
        services = pending.services
        if not self._records.are_withheld(throttle, services.clock.ms()):
            return response
        if self._recorded is not None:
            self._recorded.unrecord(services.quotas, pending.context)
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
            if not allowed:
                each.log, each.error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _name_of(requested: RequestedPartition, services: FetchServices) -> str | None:
    """Return the name of a topic; None for an unknown id."""
    if requested.topic_id == ZERO_UUID:
        return requested.topic
    hosted = services.partitions.by_id.get(requested.topic_id)
    return None if hosted is None else hosted.name


class PendingReplicaFetch(PendingFetch):
    """A replica's fetch, exempt from client quotas and recorded in the leader's replication quota."""

    __slots__ = ()

    def settle(self, reply: FetchResponse, found: list[FetchedPartition]) -> Response:
        marked = self._marked(found)
        if marked:
            self._record(size_of(reply_for(marked, reply.session_id), self.context.api_version))
        return Response(reply)

    def settle_in_slices(self, reply: FetchResponse, found: list[FetchedPartition]) -> Slices[Response]:
        marked: list[FetchedPartition] = []
        for some in pieces(found):
            marked += self._marked(some)
            yield None
        if marked:
            counted = yield from reply_in_slices(marked, reply.session_id)
            self._record((yield from size_in_slices(counted, self.context.api_version)))
        return Response(reply)

    def _marked(self, found: Sequence[FetchedPartition]) -> list[FetchedPartition]:
        quota = self.services.replication.leader
        return [
            each
            for each in found
            if (log := each.requested.log) is not None and quota.is_marked(log.topic, log.index)
        ]

    def _record(self, size: int) -> None:
        self.services.replication.leader.record(size, self.services.clock.ms())


def pending_fetch(
    kind: type[PendingFetch],
    message: FetchRequest,
    replica: int,
    requested: list[RequestedPartition],
    session: FetchSession | None,
    incremental: bool,
    context: RequestContext,
    services: FetchServices,
) -> PendingFetch:
    """Return a fetch that has read nothing yet.

    `kind` builds its response; `replica` is negative for a consumer.
    """
    max_bytes = min(message.max_bytes, services.max_bytes)
    if replica >= 0:
        reading = replica_reading(replica, requested, max_bytes, services)
    else:
        if services.quotas.fetch_active:
            max_bytes = fetch_max_bytes(services.quotas, context, max_bytes)
        is_committed = message.isolation_level == READ_COMMITTED
        reading = CommittedReading(requested, max_bytes) if is_committed else Reading(requested, max_bytes)
    return kind(services, context, reading, session, incremental)


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


def _needs_the_disk_in_slices(found: list[FetchedPartition]) -> Slices[bool]:
    for some in pieces(found):
        if needs_the_disk(some):
            return True
        yield None
    return False


def empty_reply(throttle_ms: int, session_id: int) -> FetchResponse:
    """Return the response of a throttled fetch, without partitions."""
    return FetchResponse(throttle_ms, ErrorCode.NONE, session_id, [])


def size_of(reply: FetchResponse, version: int) -> int:
    """Return the size of the whole frame in bytes, which the fetch quota records."""
    return sum(len(part) for part in codec.encode_response(ApiKey.FETCH, version)(reply, 0))
