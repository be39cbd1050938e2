"""Complete responses that are sent later.

A delayed response waits in a purgatory like a fetch: its connection is not read meanwhile, and no thread
waits. Used by `retry_storm`, and by the handler of ConsumerGroupHeartbeat through `AppendLinger`.
"""

from collections.abc import Sequence
from functools import partial

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import AT_ONCE
from broker.api.requests.outcome import DELAYED, AfterCommit, MappedCommit, Outcome, Response
from broker.common.clock import Clock
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from broker.purgatory.purgatory import DelayedOperation, Purgatory


class DelayedResponse(DelayedOperation):
    """A complete response; it has no watch keys, only a timeout."""

    __slots__ = ("_response", "context")

    def __init__(self, delay_ms: int, context: RequestContext, response: Response) -> None:
        super().__init__(delay_ms)
        self.context = context
        self._response = response

    def response(self) -> Response:
        """Return the delayed response."""
        return self._response

    def is_ready(self) -> bool:
        return False


class DelayedResponses(Purgatory[DelayedResponse]):
    """The responses of one kind that wait."""

    def __init__(self, name: str, callbacks: Callbacks) -> None:
        super().__init__(name)
        self._callbacks = callbacks

    def delay(self, delay_ms: int, context: RequestContext, response: Response, now_ms: int) -> Outcome:
        """Send the response after `delay_ms`, which is above 0."""
        operation = DelayedResponse(delay_ms, context, response)
        self.try_complete_else_watch(operation, (), now_ms)
        context.connection.waiting = operation
        return DELAYED

    def complete_expired(self, now_ms: int) -> None:
        """Post the responses that are due, at most AT_ONCE; the others stay due."""
        self._post(self.expire(now_ms, AT_ONCE))

    def complete_all(self, now_ms: int) -> None:
        """Post all delayed responses at shutdown."""
        self._post(self.expire(now_ms + 2**31))

    def _post(self, settled: Sequence[DelayedResponse]) -> None:
        for operation in settled:
            self._callbacks.post(operation.context, operation.response)


class AppendLinger:
    """Delays the responses of heartbeats that wrote records: `group.coordinator.append.linger.ms`.

    The response waits at least this time after the write. Kafka collects the records of this time in one
    write, so its clients do not receive such a response earlier. librdkafka 2.13 needs that time: if it is
    told to give up partitions just before the application unsubscribes, it may join again with a heartbeat
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
