"""A fetch between its question and its answer, and how a consumer's ends. (Kafka: handleFetchRequest)

Made by `api.a01_fetch`; answered there, or by `api.waking` when it has waited. A replica's: `fetch_replica`.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.fetch_answer import empty_reply, reply_for, size_of
from broker.api.outcome import Answered
from broker.protocol.messages.fetch import FetchResponse
from broker.services.fetch_sessions import NO_SESSION, FetchSession
from broker.services.fetching import Found, Reading


class PendingFetch:
    """`incremental` answers leave out what has not changed."""

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

    def answer(self, *, fresh: bool = False) -> Answered:
        """The answer as things stand; `fresh` when it has just been read."""
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
        return self.settle(reply_for(found, session_id), found)

    def settle(self, reply: FetchResponse, found: list[Found]) -> Answered:
        """Counts what is about to be sent, by the rules for whoever asked."""
        reading, context = self.reading, self.context
        quota = self.broker.quotas.fetch
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
        if self.session is not None:
            self.session.untold(found)
        reading.drop()
        return Answered(empty_reply(throttle.throttle_ms, reply.session_id), throttle)
