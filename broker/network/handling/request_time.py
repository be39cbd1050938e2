"""The request quota at work: how much of the one thread a client's requests take. (KIP-124; Kafka:
ClientRequestQuotaManager, RequestHandlerHelper)

The handler pool has one of these while a `request_percentage` rule exists. Each request is then a batch of
its own, so that what passed between two looks at the clock was spent for it alone, and nothing is answered
by heart. Without such a rule nothing of this is there.

Time counts from when a handler takes a request to when its answer is ready or it begins to wait, the append
to the log included; and from there until the answer is written. Reading a request from its socket is not in
it.
"""

from broker.api.outcome import AfterCommit, Answered, Encoded, Outcome, Parked, Silent
from broker.network.clock import TrioClock
from broker.network.handling.request import Request
from broker.quotas.request import RequestQuotaManager
from broker.quotas.verdict import larger


class RequestTime:
    """Charges requests, one after the other."""

    __slots__ = ("_answered", "_clock", "_quota")

    def __init__(self, quota: RequestQuotaManager, clock: TrioClock) -> None:
        self._quota = quota
        self._clock = clock
        self._answered: Request | None = None

    def charge(self, request: Request, outcome: Outcome) -> Outcome:
        """The outcome with the throttle that counts, which is the longer of its own and the request
        quota's; it is told in the answer. One that is still waited for is charged when it comes.
        """
        if isinstance(outcome, AfterCommit | Parked):
            return outcome
        now = self._clock.ns()
        spent = (request.local_complete or now) - request.dequeued
        now_ms = now // 1_000_000 + self._clock.base_ms
        if isinstance(outcome, Silent):
            self._quota.record_exempt(spent, now_ms)
            return outcome
        self._answered = request
        request.channel.request_ns += spent
        principal = request.channel.principal
        throttle = self._quota.record_handled(principal, request.channel.client_id, spent, now_ms)
        if isinstance(outcome, Answered | Encoded):
            outcome.throttle = larger(outcome.throttle, throttle)
        if isinstance(outcome, Answered):
            outcome.cacheable = False
            if outcome.throttle is not None and hasattr(outcome.reply, "throttle_time_ms"):
                outcome.reply.throttle_time_ms = outcome.throttle.throttle_ms
        return outcome

    def sent(self) -> None:
        """The answer that was charged last has been written as far as its socket took it."""
        request, self._answered = self._answered, None
        if request is not None:
            now = self._clock.ns()
            spent, now_ms = now - request.completed, now // 1_000_000 + self._clock.base_ms
            request.channel.request_ns += spent
            self._quota.record_sent(request.channel.principal, request.channel.client_id, spent, now_ms)
