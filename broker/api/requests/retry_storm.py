"""Delays error responses to clients that retry a failing request at once.

If `automq.retry.storm.backoff.enabled` is set, `network.requests.routes` wraps the handlers of some APIs in a
`RetryStormGate`. A response that has waited already, such as that of a delayed fetch or a JoinGroup, is
not delayed again. (AutoMQ: RetryStormResponseGate, RetryStormDelayedResponseScheduler)
"""

from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Any, Final

from broker.api.registry import Api
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import DelayedResponses
from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import AfterCommit, MappedCommit, Outcome, Response, Sliced
from broker.api.requests.retry_errors import errors_of
from broker.common.clock import Clock
from broker.protocol.api_key import ApiKey
from broker.quotas.retry_storm import TRANSIENT, RetryStorm

RETRY_STORM: Final = "retry-storm-reaper"

Handle = Callable[[Any, RequestContext, Any], Outcome | Awaitable[Outcome]]


class RetryStormGate:
    """Wraps handlers; one gate for all of them.

    `storm` has the recorded errors, `delayed` the waiting responses.
    """

    def __init__(self, callbacks: Callbacks, clock: Clock) -> None:
        self.storm = RetryStorm()
        self.delayed = DelayedResponses("RetryStorm", callbacks)
        self._clock = clock

    def handler(self, api: Api) -> Handle:
        """Return the handler of `api` behind the gate, or unchanged if the gate does not apply to the API."""
        handle = api.handle
        key = api.key
        if key not in TRANSIENT:
            return handle

        def gated(message: Any, context: RequestContext, services: Any) -> Outcome | Awaitable[Outcome]:
            outcome = handle(message, context, services)
            if isinstance(outcome, CoroutineType):
                return self._later(outcome, key, message, context)
            if isinstance(outcome, Sliced):
                outcome.then = partial(self._after_slices, api=key, message=message, context=context)
                return outcome
            return self.passed(outcome, key, message, context)  # type: ignore[arg-type]

        return gated

    def fast_path(self, api: Api, fast_path: FastPath) -> FastPath:
        """Wrap the fast path of `api`, because its appends can fail too."""
        return GatedFastPath(fast_path, api.key, self)

    def passed(
        self, outcome: Outcome, api: int, message: Any, context: RequestContext, now_ms: int = 0
    ) -> Outcome:
        """Return the outcome, or DELAYED if the response is delayed.

        `message` is None on the fast path, whose response names its resources.
        """
        if isinstance(outcome, AfterCommit):
            return MappedCommit(outcome, partial(self.passed, api=api, message=message, context=context))
        if not isinstance(outcome, Response):
            return outcome
        errors = errors_of(api, message, outcome.reply)
        if not errors:
            return outcome
        now_ms = now_ms or context.now_ms
        longest_ms = message.max_wait_ms if api == ApiKey.FETCH else None
        delay_ms = self.storm.delay_of(api, context.connection.id, errors, now_ms, longest_ms)
        if not delay_ms:
            return outcome
        return self.delayed.delay(delay_ms, context, outcome, now_ms)

    def _after_slices(
        self, outcome: Outcome | Awaitable[Outcome], api: int, message: Any, context: RequestContext
    ) -> Outcome | Awaitable[Outcome]:
        if isinstance(outcome, CoroutineType):
            return self._later(outcome, api, message, context)
        return self.passed(outcome, api, message, context, self._clock.ms())  # type: ignore[arg-type]

    async def _later(
        self, outcome: Awaitable[Outcome], api: int, message: Any, context: RequestContext
    ) -> Outcome:
        return self.passed(await outcome, api, message, context, self._clock.ms())


class GatedFastPath:
    """A `FastPath` behind the gate."""

    def __init__(self, inner: FastPath, api: int, gate: RetryStormGate) -> None:
        self._inner = inner
        self._api = api
        self._gate = gate

    def serve(self, frame: Any, context: RequestContext) -> Outcome | None:
        outcome = self._inner.serve(frame, context)
        if isinstance(outcome, AfterCommit):
            return self._gate.passed(outcome, self._api, None, context)
        return outcome

    def forget(self) -> None:
        self._inner.forget()
