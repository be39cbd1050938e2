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
from broker.api.outcome import PARKED, Answered, Outcome
from broker.api.registry import api
from broker.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from broker.protocol.schema import ZERO_UUID
from broker.services.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSession
from broker.services.fetching import DelayedFetch, Reading, Wanted, check_epoch


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
    try:
        wanted, session, incremental = _wanted(message, context, broker)
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
        return Answered(reply)
    principal, client_id, now_ms = context.connection.principal, context.client_id, context.now_ms
    size = size_of(reply, context.api_version)
    throttle = quota.record(principal, client_id, size, now_ms)
    if throttle is None:
        return Answered(reply)
    quota.unrecord(principal, client_id, size, now_ms)
    if session is not None:
        session.untold(found)
    reading.drop()
    return Answered(empty_reply(throttle.throttle_ms, session_id), throttle)


def _wanted(
    message: FetchRequest, context: RequestContext, broker: Broker
) -> tuple[list[Wanted], FetchSession | None, bool]:
    """What this fetch reads, the session it belongs to, and whether its answer may leave out the
    unchanged.
    """
    session_id, epoch = message.session_id, message.session_epoch
    if epoch == FINAL_EPOCH and session_id == NO_SESSION:
        return _named(message.topics, broker), None, False
    by_id = context.api_version >= 13
    if epoch in (FINAL_EPOCH, FIRST_EPOCH):
        broker.sessions.close(session_id)
        wanted = _named(message.topics, broker)
        session = None
        if epoch == FIRST_EPOCH and wanted:
            session = broker.sessions.create(uses_topic_ids=by_id, now_ms=context.now_ms)
        if session is not None:
            for each in wanted:
                session.want((each.topic, each.topic_id, each.partition), each)
        return wanted, session, False
    session = broker.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
    for each in _named(message.topics, broker):
        session.want((each.topic, each.topic_id, each.partition), each)
    for topic in message.forgotten_topics_data:
        for partition in topic.partitions:
            session.forget((topic.topic, topic.topic_id, partition))
    return session.wanted(), session, True


def _named(topics: list[FetchTopic], broker: Broker) -> list[Wanted]:
    wanted = []
    for topic in topics:
        if topic.topic_id != ZERO_UUID:
            hosted = broker.partitions.by_id.get(topic.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            hosted = broker.partitions.by_name.get(topic.topic)
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in topic.partitions:
            log = hosted.log(each.partition) if hosted is not None else None
            if log is None:
                error = missing if hosted is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                error = check_epoch(each.current_leader_epoch)
            wanted.append(
                Wanted(
                    topic.topic,
                    topic.topic_id,
                    each.partition,
                    each.fetch_offset,
                    each.partition_max_bytes,
                    log,
                    error,
                )
            )
    return wanted
