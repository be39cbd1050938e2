"""Delays the responses of heartbeats that changed a group. For the handler of ConsumerGroupHeartbeat."""

from functools import partial

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_responses import DelayedResponses
from broker.api.requests.outcome import AfterCommit, MappedCommit, Outcome, Response
from broker.common.clock import Clock
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


class AppendLinger:
    """Delays the responses of heartbeats that wrote records: `group.coordinator.append.linger.ms`.

    The response waits at least this time after the write. Kafka collects the records of this time in one
    write, so its clients do not receive such a response earlier. librdkafka 2.13 needs that time: if it is
    asked to give up partitions just before the application unsubscribes, it may join again with a heartbeat
    that every broker refuses, and the consumer fails. The broker writes at once, so that nothing that another
    client sees can get lost.
    """

    __slots__ = ("_clock", "_linger_ms", "responses")

    def __init__(self, linger_ms: int, callbacks: Callbacks, clock: Clock) -> None:
        self._linger_ms = linger_ms
        self._clock = clock
        self.responses = DelayedResponses("GroupAppend", callbacks)

    def delayed(self, outcome: Outcome, context: RequestContext) -> Outcome:
        """Return `outcome`, whose response waits if it depends on a commit that succeeds."""
        if not self._linger_ms or not isinstance(outcome, AfterCommit):
            return outcome
        return MappedCommit(outcome, partial(self._written, context))

    def _written(self, context: RequestContext, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Response):
            return outcome
        reply = outcome.reply
        if isinstance(reply, ConsumerGroupHeartbeatResponse) and reply.error_code:
            return outcome
        # The millisecond that has begun does not count, or the response would be early.
        begun = self._clock.ns() % 1_000_000 > 0
        return self.responses.delay(self._linger_ms + begun, context, outcome, self._clock.ms())
