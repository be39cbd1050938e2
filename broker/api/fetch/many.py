"""A Fetch of many partitions: looked up, read and encoded in slices. Called by `api.a01_fetch`.

It waits for `min_bytes` like other fetches (Kafka: DelayedFetch), but an append reads only the appended
partition again (`partitions.fetching.DelayedManyFetch`). The waiting fetches name at most MAX_WAITING
partitions together; a fetch over this limit responds at once.
"""

from collections.abc import Sequence
from typing import Final

from broker.api.fetch.partitions import requested_in_slices
from broker.api.fetch.pending import (
    PendingFetch,
    PendingReplicaFetch,
    pending_fetch,
    refuse_unprivileged,
    reply_in_slices,
)
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response, Sliced
from broker.api.requests.pacing import pieces
from broker.api.requests.services import FetchServices
from broker.common.errors import ApiError
from broker.partitions.fetch_sessions import NO_SESSION
from broker.partitions.fetching import DelayedManyFetch, FetchedPartition, Reading
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.protocol.schema import Struct
from broker.quotas.throttled import Throttle
from broker.records.slices import SLICE, Slices

MAX_WAITING: Final = 1_000_000
"""Partitions of all waiting large fetches; our own limit. Each takes about 250 bytes outside a session."""


def fetch_many(
    message: FetchRequest, replica: int, context: RequestContext, services: FetchServices
) -> Slices[Outcome]:
    yield from services.sessions.freed()
    try:
        requested, session, incremental = yield from requested_in_slices(message, context, services)
    except ApiError as error:
        return Response(FetchResponse(error_code=error.code))
    kind = PendingManyReplicaFetch if replica >= 0 else PendingManyFetch
    if replica >= 0 or services.security.authorizer is not None:
        for some in pieces(requested):
            refuse_unprivileged(some, replica, context, services)
            yield None
    pending = pending_fetch(kind, message, replica, requested, session, incremental, context, services)
    reading = pending.reading
    min_bytes = min(message.min_bytes, reading.max_bytes)
    if message.max_wait_ms <= 0 or min_bytes <= 0:
        yield from _read(reading)
        return (yield from _response(pending))
    operation = DelayedManyFetch(message.max_wait_ms, pending, min_bytes)
    try:
        yield from _prepare(operation, reading, services)
        waiting = sum(each.partitions for each in services.fetches.any_watchers)
        if reading.size < min_bytes and not reading.stop_waiting and waiting <= MAX_WAITING:
            yield from _free(reading.found)
            operation.wait()
            if not services.fetches.try_complete_else_wait(operation, services.clock.ms()):
                context.connection.waiting = operation
                return DELAYED
            yield from _read(reading)
    finally:
        operation.cancel_unless_waiting()
    return (yield from _response(pending))


class PendingManyFetch(PendingFetch):
    """A consumer's fetch, which builds its response in slices."""

    __slots__ = ()

    def without_records(self, throttle: Throttle, found: list[FetchedPartition]) -> Response:
        """Leave the partitions of an unsent response to the session's next fetch, which includes them again,
        in slices.
        """
        sessions, reading = self.services.sessions, self.reading
        if self.session is not None and self.incremental:
            self.session.unsent += found
        else:
            sessions.discard(found)
        sessions.discard(reading.found)
        assert isinstance(reading.requested, list)
        sessions.discard(reading.requested)
        return super().without_records(throttle, [])

    def discard(self, reply: Struct) -> None:
        self.services.sessions.discard(reply)

    def response(self, *, fresh: bool = False) -> Response | Sliced:
        return Sliced(_read_and_answer(self), None)


class PendingManyReplicaFetch(PendingReplicaFetch):
    """A replica's fetch, which builds its response in slices."""

    __slots__ = ()

    def response(self, *, fresh: bool = False) -> Response | Sliced:
        return Sliced(_read_and_answer(self), None)


def _read_and_answer(pending: PendingFetch) -> Slices[Outcome]:
    yield from _read(pending.reading)
    return (yield from _response(pending))


def _prepare(operation: DelayedManyFetch, reading: Reading, services: FetchServices) -> Slices[None]:
    """Read all partitions after registering the operation, so that it sees every append."""
    for some in pieces(reading.requested):
        operation.add(some)
        yield None
    operation.watched(services.fetches.watch_any(operation))
    yield from _read(reading)
    if reading.size < operation.min_bytes:
        for found in pieces(reading.found):
            operation.read(found)
            yield None


def _read(reading: Reading) -> Slices[None]:
    reading.begin()
    for some in pieces(reading.requested):
        reading.read(some)
        yield None


def _response(pending: PendingFetch) -> Slices[Outcome]:
    """Build the response of `PendingFetch.response` in slices from a fresh read."""
    reading, session = pending.reading, pending.session
    found = reading.found
    if session is not None:
        news: list[FetchedPartition] = []
        for some in pieces(found):
            news += session.news(list(some))
            yield None
        if pending.incremental:
            found = news
    reply = yield from reply_in_slices(found, NO_SESSION if session is None else session.id)
    read = reading.found
    response = yield from pending.settle_in_slices(reply, found)
    if response.throttle is None:
        for some in pieces(read):
            reading.count_sent(some)
            yield None
    if response.withhold is not None:
        return response  # the request quota may still withhold the records
    for items in (found, read, reading.requested):
        yield from _free(items)
    return response


def _free(items: Sequence[object]) -> Slices[None]:
    """Free the elements in slices rather than all at once with the list."""
    assert isinstance(items, list)
    while items:
        del items[-SLICE:]
        yield None
