"""A client's connection: a request in flight, its response, and the throttle of the quotas.

Run by `engine` and `trial`. Calls ClientQuotas as the Produce and Fetch handlers do: a produce is recorded
in full; a fetch is cut to the windows' limit, and one that violates its quota is unrecorded and repeated
after the throttle.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from broker.common.clock import BASE_MS
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttled import Throttle, longer
from broker.simulation.arrivals import Arrival, RequestSender
from broker.simulation.idle_periods import IdlePeriods


class ThrottleTotals(msgspec.Struct):
    """The throttles of a connection for one kind of quota: count, total and maximum, and the number of
    throttled requests.
    """

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    requests: int = 0

    def add(self, ms: int, requests: int = 1) -> None:
        self.count += 1
        self.requests += requests
        self.total_ms += ms
        if ms > self.longest_ms:
            self.longest_ms = ms


class SimulatedConnection:
    """One connection. `sent_requests` and `sent_bytes` are its successes, besides those that `sender`
    counts.

    `idles` are the idle periods of its limits; `arrivals` makes the iterator of its requests.
    """

    def __init__(
        self,
        quotas: ClientQuotas,
        kind: QuotaKind,
        names: tuple[str, str],
        idles: Sequence[IdlePeriods],
        arrivals: Callable[[RequestSender], Iterator[Arrival]],
        *,
        latency_us: int,
        obeys: bool,
        batch_bytes: int,
        patience_us: int | None,
        handling_ns: int,
    ) -> None:
        self.user, self.client_id = names
        self.kind = kind
        self.throttles = {QuotaKind.REQUEST: ThrottleTotals(), kind: ThrottleTotals()}
        self.sent_requests = 0
        self.sent_bytes = 0
        # Most connections are under one limit; these call it directly.
        idle_until = idles[0].until if len(idles) == 1 else self._idle_until
        self.sender = RequestSender(idle_until, batch_bytes, patience_us)
        self._arrivals = arrivals(self.sender)
        self._quotas = quotas
        self._idle_periods = tuple(idles)
        self._latency_us = latency_us
        self._obeys = obeys
        self._handling_ns = handling_ns
        self._due: Arrival | None = None
        self._send_request = {QuotaKind.FETCH: self._fetch, QuotaKind.REQUEST: self._handle}.get(
            kind, self._produce
        )

    @property
    def accepted_bytes(self) -> int:
        """The bytes of all successful requests, including those that were not simulated."""
        return self.sent_bytes + self.sender.not_simulated.nbytes

    def next_at(self) -> int | None:
        """Return the time of the next request; None at the end."""
        due = self._due
        if due is None:
            due = self._due = next(self._arrivals, None)
            if due is None:
                return None
        free_us = self.sender.free_us
        if due.at_us >= free_us:
            return due.at_us
        self._note_wait(free_us)
        return free_us

    def send(self, at_us: int) -> None:
        """Send the request that `next_at` found."""
        due = self._due
        assert due is not None
        now_ms = BASE_MS + at_us // 1000
        throttle = self._send_request(due, now_ms)
        free_us = at_us + self._latency_us
        if throttle is not None:
            wait_ms = throttle.throttle_ms
            # A throttled fetch was one request, whose response is empty; those behind it were not sent yet.
            self.throttles[throttle.kind].add(wait_ms, 1 if self.kind is QuotaKind.FETCH else due.requests)
            # Muted in whole milliseconds of the broker's clock; a client that obeys counts from the
            # response.
            muted_until_us = (at_us // 1000 + wait_ms) * 1000
            free_us = free_us + wait_ms * 1000 if self._obeys else max(free_us, muted_until_us)
            self._note_wait(free_us)
        self.sender.free_us = free_us

    def _produce(self, due: Arrival, now_ms: int) -> Throttle | None:
        throttle = self._quotas.record_produce(self.user, self.client_id, due.nbytes, now_ms)
        self._accept(due.nbytes, due.requests)
        self._due = None
        return self._with_request_quota(throttle, due.requests, now_ms)

    def _handle(self, due: Arrival, now_ms: int) -> Throttle | None:
        """Take requests of which only the handlers' time counts: their `nbytes` are nanoseconds."""
        self._accept(due.nbytes, due.requests)
        self._due = None
        return self._quotas.request.record_handled(self.user, self.client_id, due.nbytes, now_ms)

    def _fetch(self, due: Arrival, now_ms: int) -> Throttle | None:
        quotas, user, client_id = self._quotas, self.user, self.client_id
        nbytes = min(due.nbytes, quotas.fetch_max_bytes(user, client_id, now_ms))
        throttle = quotas.record_fetch(user, client_id, nbytes, now_ms)
        if throttle is not None:
            quotas.unrecord_fetch(user, client_id, nbytes, now_ms)
        elif nbytes < due.nbytes:
            self._accept(nbytes, 1)
            self._due = Arrival(due.at_us, due.nbytes - nbytes, max(due.requests - 1, 1))
        else:
            self._accept(nbytes, due.requests)
            self._due = None
        return self._with_request_quota(throttle, due.requests, now_ms)

    def _with_request_quota(self, throttle: Throttle | None, requests: int, now_ms: int) -> Throttle | None:
        """Return the throttle that applies, after the request quota if requests have a handling time."""
        if not self._handling_ns:
            return throttle
        request = self._quotas.request
        timed = request.record_handled(self.user, self.client_id, requests * self._handling_ns, now_ms)
        return longer(timed, throttle)

    def _accept(self, nbytes: int, requests: int) -> None:
        self.sent_bytes += nbytes
        self.sent_requests += requests

    def _idle_until(self, at_us: int) -> int:
        return min(idle.until(at_us) for idle in self._idle_periods)

    def _note_wait(self, until_us: int) -> None:
        for idle in self._idle_periods:
            idle.note_wait(until_us)
