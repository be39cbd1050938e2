"""Attributes the time of the broker's thread to clients, for the request quota. (KIP-124; Kafka:
ClientRequestQuotaManager, KafkaChannel.networkThreadTimeNanos, RequestChannel.requestThreadTimeNanos)

One instance exists while a `request_percentage` rule exists, shared by all handlers and processors. Without
such a rule, requests pay no cost for it.

Time is measured in laps: a piece of work starts where the last one ended, or with `begin`, and its client is
charged the lap at its end. So no nanosecond is charged twice, and the sum of all laps never exceeds the
thread's time. One commit writes the records of all requests of a batch; they share its lap. The processor
time of a thread that unpacks a request's batch is added to the request's.

| work | charged to | recorded |
| --- | --- | --- |
| reading, decrypting, writing, TLS handshakes | the channel's `network_ns` | after the send completes |
| decoding, handler, commit, callbacks, every step of a slow handler | the request's `handler_ns` | when the \
request is done, with a check of the quota |
| unpacking a batch in a thread | the request's `handler_ns` | when the request is done |
| encoding the response | the request's `handler_ns` | after the send completes |
| a cached response | the channel's `network_ns` | with the next request |

What is recorded after a response stays in the channel's `unrecorded_ns` until that is MAX_UNRECORDED_NS, its
next request is done, or it closes. A small request is so recorded once instead of twice.

The time of exempt requests is recorded in the exempt sensor: replica fetches, including refused ones, and
requests of the listener named by `inter.broker.listener.name`. Kafka exempts requests without a response
(acks=0) as well, so that a client escapes the quota by not asking for one; here the mute enforces it.
"""

from collections.abc import Awaitable, Collection, Sequence
from typing import Final, TypeVar

from broker.api.requests.outcome import (
    AfterCommit,
    Delayed,
    EncodedResponse,
    NoResponse,
    Outcome,
    Response,
    Sliced,
)
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.requests.measured_steps import MeasuredSteps
from broker.network.requests.request_channel import Request
from broker.quotas.request import RequestQuotaManager
from broker.quotas.throttled import longer

Result = TypeVar("Result")

COMMIT_BYTES: Final = 4096
"""What a request adds to its share of a commit beside its own bytes, for work that does not grow with them;
ours.
"""

MAX_UNRECORDED_NS: Final = 100_000
"""Time that a connection may take before it is recorded; ours. A cached response takes some ten microseconds,
and its recording would take another one.
"""

WAITING: Final = (AfterCommit, Delayed, Sliced)
"""Outcomes of requests that are not complete."""


class RequestTime:
    """`exempt` is a live set of the names of listeners that serve only other brokers."""

    def __init__(self, quota: RequestQuotaManager, clock: TrioClock, exempt: Collection[str]) -> None:
        self._quota = quota
        self._ns = clock.ns
        self._base_ms = clock.base_ms
        self._exempt = exempt
        self._last = clock.ns()
        self._delayed: dict[Channel, set[Request]] = {}

    # Laps

    def begin(self) -> None:
        """Start a lap. The time since the last lap is charged to no client."""
        self._last = self._ns()

    def begin_at(self, now: int) -> None:
        """Start a lap at a time that the caller has just read."""
        self._last = now

    def add_handler(self, request: Request) -> None:
        """End a lap of handling `request`."""
        now = self._ns()
        request.handler_ns += now - self._last
        self._last = now

    def add_handler_until(self, request: Request, now: int) -> None:
        """End a lap of handling `request` at a time that the caller has just read."""
        request.handler_ns += now - self._last
        self._last = now

    def add_network(self, channel: Channel) -> None:
        """End a lap of reading from or writing to `channel`."""
        now = self._ns()
        channel.network_ns += now - self._last
        self._last = now

    def share(self, requests: Sequence[Request]) -> None:
        """End a lap of committing all of `requests`, in shares that grow with their bytes."""
        now = self._ns()
        lap = now - self._last
        total = 0
        for request in requests:
            total += request.size + COMMIT_BYTES
        for request in requests:
            request.handler_ns += lap * (request.size + COMMIT_BYTES) // total
        self._last = now

    def run(self, request: Request, slow: Awaitable[Result]) -> MeasuredSteps[Result]:
        """Return an awaitable with the result of `slow`; each of its steps is a lap of `request`."""
        return MeasuredSteps(self, request, slow)

    # Charges

    def charge(self, request: Request, outcome: Outcome) -> Outcome:
        """End the lap and record the time spent on `request`. The returned outcome carries the larger of its
        own throttle and the request quota's, which the response reports if there is one. A request that still
        waits is recorded when it is done.
        """
        now = self._ns()
        spent = request.handler_ns + now - self._last
        self._last = now
        kind = outcome.__class__
        if kind is not EncodedResponse and isinstance(outcome, WAITING):
            request.handler_ns = spent
            if kind is Delayed:
                self._delayed.setdefault(request.channel, set()).add(request)
                if request.channel.closed:
                    self.close(request.channel)  # it closed while its request was in the request channel
            return outcome
        request.handler_ns = 0
        channel = request.channel
        if self._delayed and (delayed := self._delayed.get(channel)) is not None:
            delayed.discard(request)
            if not delayed:
                del self._delayed[channel]
        now_ms = now // 1_000_000 + self._base_ms
        if request.exempt or channel.listener in self._exempt:
            request.exempt = True
            self._quota.record_exempt(spent, now_ms)
            return outcome
        spent += channel.unrecorded_ns
        channel.unrecorded_ns = 0
        channel.request_ns += spent
        throttle = self._quota.record_handled(channel.principal, request.client_id, spent, now_ms)
        if throttle is None:
            return outcome
        if isinstance(outcome, NoResponse):
            return NoResponse(longer(throttle, outcome.throttle))
        if kind is EncodedResponse:
            assert isinstance(outcome, EncodedResponse)
            withheld = None if outcome.withhold is None else outcome.withhold(throttle)
            if withheld is not None:
                return withheld
            outcome.lengthen(throttle)
        elif isinstance(outcome, Response):
            outcome.throttle = longer(throttle, outcome.throttle)
            if outcome.withhold is not None:
                outcome = outcome.withhold(outcome, throttle)
            if outcome.throttle is not None and hasattr(outcome.reply, "throttle_time_ms"):
                # A gateway's handler may have put the larger throttle time of its upstream broker there.
                outcome.reply.throttle_time_ms = max(
                    outcome.reply.throttle_time_ms, outcome.throttle.throttle_ms
                )
        return outcome

    def admits_cached(self, channel: Channel, client_id: str | None) -> bool:
        """Return whether a cached response may be sent: a client over its limit is left to `charge`, which
        throttles it.
        """
        spent = channel.unrecorded_ns + channel.network_ns
        channel.network_ns = 0
        if spent < MAX_UNRECORDED_NS:
            channel.unrecorded_ns = spent
            return True
        channel.unrecorded_ns = 0
        now_ms = self._last // 1_000_000 + self._base_ms
        if channel.listener in self._exempt:
            self._quota.record_exempt(spent, now_ms)
            return True
        channel.request_ns += spent
        return self._quota.record_cached(channel.principal, client_id, spent, now_ms)

    def settle(self, request: Request) -> None:
        """End the lap of writing a response, sent or not, and record the time of the request and its channel
        if it is MAX_UNRECORDED_NS or more. Does not throttle; the next request does, if needed.
        (recordNetworkThreadTimeCallback)
        """
        now = self._ns()
        channel = request.channel
        spent = request.handler_ns + channel.network_ns + now - self._last
        self._last = now
        request.handler_ns = channel.network_ns = 0
        if request.exempt:
            self._quota.record_exempt(spent, now // 1_000_000 + self._base_ms)
            return
        spent += channel.unrecorded_ns
        if spent < MAX_UNRECORDED_NS:
            channel.unrecorded_ns = spent
            return
        channel.unrecorded_ns = 0
        channel.request_ns += spent
        self._quota.record_sent(channel.principal, request.client_id, spent, now // 1_000_000 + self._base_ms)

    def close(self, channel: Channel) -> None:
        """Record the time of a closing connection's unanswered requests and unrecorded reads and writes: for
        its client, or as exempt if the connection sent no request. (Kafka discards this time.)
        """
        spent = channel.network_ns + channel.unrecorded_ns
        channel.network_ns = channel.unrecorded_ns = 0
        now_ms = self._last // 1_000_000 + self._base_ms
        for request in self._delayed.pop(channel, ()):
            if request.exempt:
                self._quota.record_exempt(request.handler_ns, now_ms)
            else:
                spent += request.handler_ns
            request.handler_ns = 0
        if not spent:
            return
        if channel.requests == 0 or channel.listener in self._exempt:
            self._quota.record_exempt(spent, now_ms)
        else:
            channel.request_ns += spent
            self._quota.record_sent(channel.principal, channel.client_id, spent, now_ms)
