"""Fetch: reads record batches and waits up to `max_wait_ms` for `min_bytes`.

Versions 4-18; sessions (KIP-227) from 7, topic ids from 13. Records pass from the page cache to the socket. A
partition without records has empty bytes, never null (librdkafka, kafka-python). A fetch over its byte-rate
quota or its client's request quota gets an empty response with the throttle time, and the byte-rate quota
takes back the recorded bytes. An unknown partition does not end the wait of the others. The replication
throttle applies to replica fetches instead of client quotas. With isolation level 1, records end at the last
stable offset, and the response names the aborted transactions among them. Left out: follower progress on the
leader.
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.fetch.fast_path import FetchFastPath
from broker.api.fetch.pending import (
    freed,
    pending_fetch,
    read_in_slices,
    refuse_unprivileged,
    replica_of,
    wait,
)
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response, in_slices
from broker.api.requests.pacing import pieces
from broker.api.requests.services import FetchServices
from broker.api.requests.topics_used import note_read
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices
from broker.partitions.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSession
from broker.partitions.fetching import DelayedManyFetch, Reading, RequestedPartition, check_epoch
from broker.partitions.partitions import HostedTopic, Partitions
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.protocol.schema import ZERO_UUID

MAX_WAITING: Final = 1_000_000
"""Partitions of all waiting large fetches; our own limit. Each takes about 250 bytes outside a session."""


@api(ApiKey.FETCH, versions=(4, 18), services=FetchServices, fast_path=FetchFastPath)
def handle(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Outcome | Awaitable[Outcome]:
    replica = replica_of(message)
    if replica >= 0:
        context.count_as("FetchFollower")
        context.exempt = True
    return in_slices(fetch(message, replica, context, services))


def fetch(
    message: FetchRequest, replica: int, context: RequestContext, services: FetchServices
) -> Slices[Outcome]:
    """Look up, read and answer any request; of few partitions, whose logs are open, without a pause.

    A request of many partitions is worked on in slices. It waits for `min_bytes` like other fetches (Kafka:
    DelayedFetch), but an append reads only the appended partition again (DelayedManyFetch). Such waiting
    fetches name at most MAX_WAITING partitions together; a fetch over this limit responds at once.
    """
    try:
        requested, session, incremental = yield from requested_partitions(message, context, services)
    except ApiError as error:
        return Response(FetchResponse(error_code=error.code))
    pending = pending_fetch(message, replica, requested, session, incremental, context, services)
    is_many, reading = pending.is_many, pending.reading
    if is_many:
        yield from services.sessions.freed()
    if replica >= 0 or services.security.authorizer is not None:
        for some in pieces(requested):
            refuse_unprivileged(some, replica, context, services)
            if is_many:
                yield None
    min_bytes = min(message.min_bytes, reading.max_bytes)
    if is_many and message.max_wait_ms > 0 and min_bytes > 0:
        operation = DelayedManyFetch(message.max_wait_ms, pending, min_bytes)
        try:
            yield from _prepare(operation, reading, services)
            waiting = sum(each.partitions for each in services.fetches.any_watchers)
            if reading.size < min_bytes and not reading.stop_waiting and waiting <= MAX_WAITING:
                yield from freed(reading.found)
                operation.wait()
                if not services.fetches.try_complete_else_wait(operation, services.clock.ms()):
                    context.connection.waiting = operation
                    return DELAYED
                yield from read_in_slices(reading)
        finally:
            operation.cancel_unless_waiting()
    elif is_many:
        yield from read_in_slices(reading)
    else:
        if reading.read() < min_bytes and not reading.stop_waiting and message.max_wait_ms > 0:
            return wait(pending, message.max_wait_ms, min_bytes)
        return pending.respond()
    return (yield from pending.respond_in_slices())


def _prepare(operation: DelayedManyFetch, reading: Reading, services: FetchServices) -> Slices[None]:
    """Read all partitions after registering the operation, so that it sees every append."""
    for some in pieces(reading.requested):
        operation.add(some)
        yield None
    operation.watched(services.fetches.watch_any(operation))
    yield from read_in_slices(reading)
    if reading.size < operation.min_bytes:
        for found in pieces(reading.found):
            operation.read(found)
            yield None


def requested_partitions(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Slices[tuple[list[RequestedPartition], FetchSession | None, bool]]:
    """Return the partitions to read, the session, and whether the response is incremental.

    The session's epoch has already advanced, so no other request of the session runs in a pause.
    """
    session_id, epoch = message.session_id, message.session_epoch
    by_id = context.api_version >= 13
    full = epoch in (FINAL_EPOCH, FIRST_EPOCH)
    session = None
    if not full:
        session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
        while session.unsent:
            session.undo_response_data(session.unsent[-SLICE:])
            del session.unsent[-SLICE:]
            yield None
        for known in (yield from _requested_of(session)):
            if known.log is None or known.log.deleted:
                hosted, known.error = _hosted(known.topic, known.topic_id, services.partitions)
                known.log = None
                if hosted is not None:
                    _find_log(known, hosted)
            yield None
    elif session_id != NO_SESSION:
        services.sessions.close(session_id)
    named: list[RequestedPartition] = []
    for topic in message.topics:
        hosted, error = _hosted(topic.topic, topic.topic_id, services.partitions)
        if hosted is not None and services.security.authorizer is None:
            note_read(context.connection, hosted.name)
        for partition in topic.partitions:
            yield None
            hosted, error = _hosted(topic.topic, topic.topic_id, services.partitions)
            each = RequestedPartition(
                topic.topic,
                topic.topic_id,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                None,
                error,
            )
            named.append(each)
            if hosted is not None:
                _find_log(each, hosted)
                if each.log is not None:
                    each.error = check_epoch(partition.current_leader_epoch)
        yield None
    if full and (epoch == FINAL_EPOCH or not named):
        return named, None, False
    if session is None:
        session = services.sessions.create(partitions=len(named), uses_topic_ids=by_id, now_ms=context.now_ms)
        if session is None:
            return named, None, False
    for each in named:
        session.add((each.topic, each.topic_id, each.partition), each)
        yield None
    for forgotten in () if full else message.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic, forgotten.topic_id, index))
            yield None
        yield None
    services.sessions.recount(session)
    if full:
        return named, session, False
    return (yield from _requested_of(session)), session, True


def _requested_of(session: FetchSession) -> Slices[list[RequestedPartition]]:
    """Return `FetchSession.requested` in slices.

    Raises ApiError FETCH_SESSION_ID_NOT_FOUND if the session is closed meanwhile.
    """
    requested: list[RequestedPartition] = []
    partitions = session.partitions
    for known in partitions.values():
        yield None
        if session.partitions is not partitions:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        requested.append(known.requested)
    return requested


def _hosted(topic: str, topic_id: bytes, partitions: Partitions) -> tuple[HostedTopic | None, ErrorCode]:
    """Return a topic by its id if it has one, else by name, and the error of its partitions."""
    if topic_id != ZERO_UUID:
        return partitions.by_id.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return partitions.by_name.get(topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _find_log(requested: RequestedPartition, hosted: HostedTopic) -> None:
    """Set the log of one partition, or its error."""
    try:
        requested.log = hosted.log(requested.partition)
    except ApiError as refused:
        requested.error = refused.code
    else:
        found = requested.log is not None
        requested.error = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
