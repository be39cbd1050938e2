"""Delays error responses to clients that retry a failing request at once.

If `automq.retry.storm.backoff.enabled` is set, `network.handling.routes` wraps the handlers of some APIs in a
`RetryStormGate`. A delayed response waits in a purgatory like a fetch: its connection is not read meanwhile,
and no thread waits. A response that has waited already, such as that of a delayed fetch or a JoinGroup, is
not delayed again. (AutoMQ: RetryStormResponseGate, RetryStormDelayedResponseScheduler)
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Final

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.delayed_answer import DelayedAnswer
from broker.api.outcome import DELAYED, AfterCommit, Answered, Outcome, Sliced
from broker.api.registry import Api, RequestCache
from broker.api.retry_errors import errors_of
from broker.log.partition import PartitionLog
from broker.protocol.api_key import ApiKey
from broker.quotas.retry_storm import TRANSIENT

RETRY_STORM: Final = "retry-storm-reaper"

AT_ONCE: Final = 128
"""Responses completed in one turn; equals the number of requests that a handler serves in one turn."""

Handle = Callable[[Any, RequestContext, Broker], Outcome | Awaitable[Outcome]]


class RetryStormGate:
    """Wraps handlers; one gate for all of them. `broker.retry_storm` has the recorded errors."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handler(self, api: Api) -> Handle:
        """Return the handler of `api` behind the gate, or unchanged if the gate does not apply to the API."""
        handle: Handle = api.handle
        key = api.key
        if key not in TRANSIENT:
            return handle

        def gated(message: Any, context: RequestContext, broker: Broker) -> Outcome | Awaitable[Outcome]:
            outcome = handle(message, context, broker)
            if isinstance(outcome, CoroutineType):
                return self._later(outcome, key, message, context)
            if isinstance(outcome, Sliced):
                outcome.then = partial(self._after_slices, api=key, message=message, context=context)
                return outcome
            return self.passed(outcome, key, message, context)  # type: ignore[arg-type]

        return gated

    def request_cache(self, api: Api, request_cache: RequestCache) -> RequestCache:
        """Wrap the request cache of `api`, because a cached append can fail too."""
        return GatedRequestCache(request_cache, api.key, self)

    def passed(
        self, outcome: Outcome, api: int, message: Any, context: RequestContext, now_ms: int = 0
    ) -> Outcome:
        """Return the outcome, or DELAYED if the response is delayed.

        `message` is None for a cached request, whose response names its resources.
        """
        if isinstance(outcome, AfterCommit):
            return GatedCommit(outcome, api, message, context, self)
        if not isinstance(outcome, Answered):
            return outcome
        errors = errors_of(api, message, outcome.reply)
        if not errors:
            return outcome
        storm, now_ms = self._broker.retry_storm, now_ms or context.now_ms
        longest_ms = message.max_wait_ms if api == ApiKey.FETCH else None
        delay_ms = storm.delay_of(api, context.connection.id, errors, now_ms, longest_ms)
        if not delay_ms:
            return outcome
        operation = DelayedAnswer(delay_ms, context, outcome)
        self._broker.delayed_answers.try_complete_else_watch(operation, (), now_ms)
        context.connection.waiting = operation
        return DELAYED

    def _after_slices(
        self, outcome: Outcome | Awaitable[Outcome], api: int, message: Any, context: RequestContext
    ) -> Outcome | Awaitable[Outcome]:
        if isinstance(outcome, CoroutineType):
            return self._later(outcome, api, message, context)
        return self.passed(outcome, api, message, context, self._broker.clock.ms())  # type: ignore[arg-type]

    async def _later(
        self, outcome: Awaitable[Outcome], api: int, message: Any, context: RequestContext
    ) -> Outcome:
        return self.passed(await outcome, api, message, context, self._broker.clock.ms())


class GatedCommit(AfterCommit):
    """An append whose response passes the gate once it is complete."""

    __slots__ = ("_api", "_context", "_gate", "_inner", "_message")

    def __init__(
        self, inner: AfterCommit, api: int, message: Any, context: RequestContext, gate: RetryStormGate
    ) -> None:
        self._inner = inner
        self._api = api
        self._message = message
        self._context = context
        self._gate = gate

    @property
    def logs(self) -> Sequence[PartitionLog]:
        return self._inner.logs

    @property
    def timeout_ms(self) -> int:
        return self._inner.timeout_ms

    def finish(self) -> Outcome:
        return self._gate.passed(self._inner.finish(), self._api, self._message, self._context)

    def fail(self) -> Outcome:
        return self._gate.passed(self._inner.fail(), self._api, self._message, self._context)


class GatedRequestCache:
    """A `RequestCache` behind the gate."""

    __slots__ = ("_api", "_gate", "_inner")

    def __init__(self, inner: RequestCache, api: int, gate: RetryStormGate) -> None:
        self._inner = inner
        self._api = api
        self._gate = gate

    def serve(self, frame: Any, context: RequestContext, broker: Broker) -> Outcome | None:
        outcome: Outcome | None = self._inner.serve(frame, context, broker)
        if isinstance(outcome, AfterCommit):
            return GatedCommit(outcome, self._api, None, context, self._gate)
        return outcome

    def learn(self, frame: Any, body: int, message: Any, context: RequestContext, broker: Broker) -> None:
        self._inner.learn(frame, body, message, context, broker)

    def forget(self) -> None:
        self._inner.forget()


def expire_delayed_answers(broker: Broker, now_ms: int) -> None:
    """Post the responses that are due, at most AT_ONCE; the others stay due."""
    _post(broker, broker.delayed_answers.expire(now_ms, AT_ONCE))


def release_delayed_answers(broker: Broker, now_ms: int) -> None:
    """Post all delayed responses at shutdown."""
    _post(broker, broker.delayed_answers.expire(now_ms + 2**31))


def _post(broker: Broker, settled: Sequence[DelayedAnswer]) -> None:
    for operation in settled:
        broker.callbacks.post(operation.context, operation.answered)
