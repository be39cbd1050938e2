"""A Fetch in progress, and how a consumer's fetch completes. (Kafka: handleFetchRequest)

`api.a01_fetch` creates it and completes it at once or, after a wait, through `api.delayed_operations`.
`fetch_replica` has the replica variant.
"""

from broker.api.byte_quotas import RecordedFetch
from broker.api.context import RequestContext
from broker.api.fetch_answer import empty_reply, reply_for, size_of
from broker.api.outcome import Answered, Sliced
from broker.api.services import FetchServices
from broker.protocol.messages.fetch import FetchResponse
from broker.quotas.verdict import Throttle
from broker.services.fetch_sessions import NO_SESSION, FetchSession
from broker.services.fetching import Found, Reading


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

    def answer(self, *, fresh: bool = False) -> Answered | Sliced:
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
        answered = self.settle(reply_for(found, session_id), found)
        if answered.throttle is None:
            reading.count_sent()
        return answered

    def settle(self, reply: FetchResponse, found: list[Found], size: int | None = None) -> Answered:
        """Record the response in the quotas at response time; a response with a throttle has no records.

        `size` is the size of the whole frame, if known.
        """
        services, context = self.services, self.context
        quotas = services.quotas
        recorded = None
        if quotas.fetch_active:
            if size is None:
                size = size_of(reply, context.api_version)
            recorded = RecordedFetch(size, found, quotas, services.clock.ms())
            throttle = recorded.record(quotas, context)
            if throttle is not None:
                recorded.unrecord(quotas, context)
                return self.without_records(throttle, found)
        if quotas.request.active:
            return FetchAnswer(reply, self, found, recorded)
        return Answered(reply)

    def without_records(self, throttle: Throttle, found: list[Found]) -> Answered:
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
        return Answered(empty_reply(throttle.throttle_ms, session_id), throttle)


class FetchAnswer(Answered):
    """A consumer's response while a request quota is set, which may still withhold its records.

    `recorded` is what the fetch quotas recorded, or None.

    Kafka withholds the records of every fetch over the request quota. Because the throttle is at most one
    window, a client whose fetches exceed its share of a window would never receive a record. Here such a
    client receives records once in the whole span that the quota measures (all of its windows); the throttle
    stays.
    """

    __slots__ = ("_found", "_pending", "_recorded", "_withheld_since_ms")

    def __init__(
        self,
        reply: FetchResponse,
        pending: PendingFetch,
        found: list[Found],
        recorded: RecordedFetch | None,
    ) -> None:
        super().__init__(reply)
        self._pending = pending
        self._found = found
        self._recorded = recorded
        connection = pending.context.connection
        self._withheld_since_ms = connection.withheld_since_ms
        if pending.reading.size:
            connection.withheld_since_ms = 0

    def withheld(self, throttle: Throttle) -> Answered:
        pending = self._pending
        context = pending.context
        connection = context.connection
        services = pending.services
        if pending.reading.size:
            now_ms, since_ms = services.clock.ms(), self._withheld_since_ms
            window = throttle.sensor.rate.window
            if since_ms and now_ms - since_ms >= window.samples * window.window_ms:
                return self
            connection.withheld_since_ms = since_ms or now_ms
        if self._recorded is not None:
            self._recorded.unrecord(services.quotas, context)
        pending.reading.count_unsent()
        return pending.without_records(throttle, self._found)
