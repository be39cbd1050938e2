"""Fetch: reads record batches, waiting for `min_bytes` up to `max_wait_ms`.

Versions 4-18; sessions (KIP-227) from 7 on, topic ids from 13 on. Records go from the page cache to the
socket; an empty answer is empty bytes and never null (librdkafka, kafka-python). A fetch over its byte-rate
quota is answered empty, with the throttle, and what was recorded for it is taken back. Left out: followers
(a replica id is treated as a consumer), read_committed sees every record as there are no transactions.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.fetch_answer import empty_reply, reply_for, size_of
from broker.api.fetch_repeat import FetchRepeats
from broker.api.fetch_wanted import wanted_by
from broker.api.outcome import PARKED, Answered, Outcome
from broker.api.registry import api
from broker.errors import ApiError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.services.fetch_sessions import NO_SESSION, FetchSession
from broker.services.fetching import DelayedFetch, Reading


class PendingFetch:
    """A fetch between its question and its answer. `incremental` answers leave out what has not changed."""

    __slots__ = ("broker", "context", "incremental", "reading", "session")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        reading: Reading,
        session: FetchSession | None,
        incremental: bool,
    ) -> None:
        self.broker = broker
        self.context = context
        self.reading = reading
        self.session = session
        self.incremental = incremental


@api(ApiKey.FETCH, versions=(4, 18), repeats=FetchRepeats)
def handle(message: FetchRequest, context: RequestContext, broker: Broker) -> Outcome:
    state = message.replica_state
    if message.replica_id >= 0 or (state is not None and state.replica_id >= 0):
        context.count_as("FetchFollower")
    try:
        wanted, session, incremental = wanted_by(message, context, broker)
    except ApiError as error:
        return Answered(FetchResponse(error_code=error.code))
    max_bytes = min(message.max_bytes, broker.fetch_config.max_bytes)
    quota = broker.quotas.fetch
    if quota.active:
        window = quota.max_value_in_window(context.connection.principal, context.client_id, context.now_ms)
        max_bytes = int(min(max_bytes, window))
    min_bytes = min(message.min_bytes, max_bytes)
    reading = Reading(wanted, max_bytes)
    pending = PendingFetch(broker, context, reading, session, incremental)
    if reading.read() >= min_bytes or reading.stop_waiting or message.max_wait_ms <= 0:
        return answer(pending, fresh=True)
    reading.drop()
    operation = DelayedFetch(message.max_wait_ms, pending, min_bytes)
    keys = [each.log for each in wanted if each.log is not None]
    if broker.fetches.try_complete_else_watch(operation, keys, context.now_ms):
        return answer(pending)
    context.connection.waiting = operation
    return PARKED


def answer(pending: PendingFetch, *, fresh: bool = False) -> Answered:
    """The answer as things stand; `fresh` when it has just been read."""
    reading, context, broker = pending.reading, pending.context, pending.broker
    if not fresh:
        reading.read()
    found = reading.found
    session = pending.session
    if session is not None:
        news = session.news(found)
        if pending.incremental:
            found = news
    session_id = session.id if session is not None else NO_SESSION
    reply = reply_for(found, session_id)
    quota = broker.quotas.fetch
    if not quota.active:
        reading.count_sent()
        return Answered(reply)
    principal, client_id, now_ms = context.connection.principal, context.client_id, context.now_ms
    size = size_of(reply, context.api_version)
    throttle = quota.record(principal, client_id, size, now_ms)
    if throttle is None:
        reading.count_sent()
        return Answered(reply)
    quota.unrecord(principal, client_id, size, now_ms)
    if session is not None:
        session.untold(found)
    reading.drop()
    return Answered(empty_reply(throttle.throttle_ms, session_id), throttle)
