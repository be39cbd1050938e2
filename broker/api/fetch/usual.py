"""The usual path of a Fetch: looks up, reads and answers any request. Called by `api.a01_fetch`.

A request of many partitions is worked on in slices. It waits for `min_bytes` like other fetches (Kafka:
DelayedFetch), but an append reads only the appended partition again (`partitions.fetching.DelayedManyFetch`).
Such waiting fetches name at most MAX_WAITING partitions together; a fetch over this limit responds at once.
"""

from typing import Final

from broker.api.fetch.partitions import requested_partitions
from broker.api.fetch.pending import freed, pending_fetch, read_in_slices, refuse_unprivileged, wait
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response
from broker.api.requests.pacing import pieces
from broker.api.requests.services import FetchServices
from broker.common.errors import ApiError
from broker.partitions.fetching import DelayedManyFetch, Reading
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.records.slices import Slices

MAX_WAITING: Final = 1_000_000
"""Partitions of all waiting large fetches; our own limit. Each takes about 250 bytes outside a session."""


def fetch(
    message: FetchRequest, replica: int, context: RequestContext, services: FetchServices
) -> Slices[Outcome]:
    """Return the outcome; of few partitions, whose logs are open, without a pause."""
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
