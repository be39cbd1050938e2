"""Complete responses that are sent later.

A delayed response waits in a purgatory like a fetch: its connection is not read meanwhile, and no thread
waits. Used by `retry_storm` and `append_linger`.
"""

from collections.abc import Sequence

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import AT_ONCE
from broker.api.requests.outcome import DELAYED, Outcome, Response
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
