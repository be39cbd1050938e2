"""A fetch of many partitions: looked up, read and answered in slices. Called by `api.a01_fetch`.

It waits as others do, but is answered as soon as anything has come: what it would have to read to know more
takes too long to be read after every append. One of more than MOST_WATCHED partitions does not wait at all.
"""

from typing import Final

from broker.api.broker import Broker
from broker.api.byte_quotas import fetch_max_bytes
from broker.api.context import RequestContext
from broker.api.fetch_answer import reply_in_slices, size_in_slices
from broker.api.fetch_pending import PendingFetch
from broker.api.fetch_replica import PendingReplicaFetch, refuse_unprivileged, replica_reading
from broker.api.fetch_wanted import wanted_in_slices
from broker.api.outcome import PARKED, Answered, Outcome, Sliced
from broker.api.pacing import pieces
from broker.errors import ApiError
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.records.slices import Slices
from broker.services.fetch_sessions import NO_SESSION
from broker.services.fetching import DelayedFetch, Found, Reading

MOST_WATCHED: Final = 10_000
"""Partitions of a fetch that waits; ours. All of them are looked at when one gets a record, which takes a
millisecond.
"""


def fetch_many(
    message: FetchRequest, replica: int, context: RequestContext, broker: Broker
) -> Slices[Outcome]:
    try:
        wanted, session, incremental = yield from wanted_in_slices(message, context, broker)
    except ApiError as error:
        return Answered(FetchResponse(error_code=error.code))
    max_bytes = min(message.max_bytes, broker.fetch_config.max_bytes)
    if replica >= 0:
        refuse_unprivileged(wanted, context, broker)
        reading = replica_reading(replica, wanted, max_bytes, broker)
        pending: PendingFetch = PendingReplicaFetch(broker, context, reading, session, incremental)
    else:
        if broker.quotas.fetch_active:
            max_bytes = fetch_max_bytes(broker.quotas, context, max_bytes)
        reading = Reading(wanted, max_bytes)
        pending = PendingManyFetch(broker, context, reading, session, incremental)
    yield from _read(reading)
    min_bytes = min(message.min_bytes, max_bytes)
    may_wait = message.max_wait_ms > 0 and len(wanted) <= MOST_WATCHED
    if reading.size >= min_bytes or reading.stop_waiting or not may_wait:
        return (yield from _answer(pending))
    reading.drop()
    operation = DelayedFetch(message.max_wait_ms, pending, 1)
    keys = [each.log for each in wanted if each.log is not None]
    if broker.fetches.try_complete_else_watch(operation, keys, broker.clock.ms()):
        return (yield from _answer(pending))
    context.connection.waiting = operation
    return PARKED


class PendingManyFetch(PendingFetch):
    """A consumer's, which is answered in slices when it has waited, too."""

    __slots__ = ()

    def answer(self, *, fresh: bool = False) -> Answered | Sliced:
        return Sliced(self._again(), None)

    def _again(self) -> Slices[Outcome]:
        yield from _read(self.reading)
        return (yield from _answer(self))


def _read(reading: Reading) -> Slices[None]:
    reading.begin()
    for some in pieces(reading.wanted):
        reading.read(some)
        yield None


def _answer(pending: PendingFetch) -> Slices[Outcome]:
    """`PendingFetch.answer` of what has just been read."""
    found = pending.reading.found
    session = pending.session
    if session is not None:
        news: list[Found] = []
        for some in pieces(found):
            news += session.news(list(some))
            yield None
        if pending.incremental:
            found = news
    reply = yield from reply_in_slices(found, NO_SESSION if session is None else session.id)
    size = None
    if pending.broker.quotas.fetch_active:
        size = yield from size_in_slices(reply, pending.context.api_version)
    return pending.settle(reply, found, size)
