"""Delays error responses to clients that retry a failing request at once.

If `automq.retry.storm.backoff.enabled` is set, `network.requests.routes` wraps the handlers of some APIs in a
`RetryStormGate`. Only a response that contains nothing but errors is delayed; one that has waited already,
such as that of a delayed fetch or a JoinGroup, is not delayed again. (AutoMQ: RetryStormResponseGate,
RetryStormDelayedResponseScheduler, ResourceErrorExtractor)
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
from broker.common.clock import Clock
from broker.protocol.api_key import ApiKey
from broker.quotas.retry_storm import TRANSIENT, RetryStorm

Errors = list[tuple[str, int]]
"""(resource, error code), as in the response."""

UNKNOWN_OFFSET: Final = -1
TRANSACTIONS: Final = 1


def errors_of(api: int, message: Any, reply: Any) -> Errors:
    """Return the errors of a response without a valid result, else an empty list."""
    found = _READERS[api](message, reply)
    return [] if any(not code for _, code in found) else found


def _produce(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.name or topic.topic_id.hex()}-{part.index}", part.error_code)
        for topic in reply.responses
        for part in topic.partition_responses
    ]


def _fetch(_message: Any, reply: Any) -> Errors:
    found = [
        (f"{topic.topic or topic.topic_id.hex()}-{part.partition_index}", part.error_code)
        for topic in reply.responses
        for part in topic.partitions
    ]
    return [*found, ("", reply.error_code)] if reply.error_code else found


def _list_offsets(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.name}-{part.partition_index}", part.error_code)
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code or part.offset != UNKNOWN_OFFSET
    ]


def _offset_for_leader_epoch(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.topic}-{part.partition}", part.error_code)
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code or part.end_offset != UNKNOWN_OFFSET
    ]


def _metadata(message: Any, reply: Any) -> Errors:
    found = _topics(message, reply)
    # A request for all topics also requests the brokers, which are a valid result.
    return [("", 0)] if not message.topics and reply.brokers else found


def _topics(_message: Any, reply: Any) -> Errors:
    found: Errors = []
    for topic in reply.topics:
        name = topic.name or topic.topic_id.hex()
        found += [
            (f"{name}-{part.partition_index}", part.error_code)
            for part in topic.partitions
            if part.error_code or part.leader_id >= 0
        ]
        if topic.error_code:
            found.append((name, topic.error_code))
    return found


def _find_coordinator(message: Any, reply: Any) -> Errors:
    kind = "transaction" if message.key_type == TRANSACTIONS else "group"
    if not reply.coordinators:
        return [(f"{kind}-{message.key}", reply.error_code)]
    return [(f"{kind}-{each.key}", each.error_code) for each in reply.coordinators]


def _group(message: Any, reply: Any) -> Errors:
    return [(f"group-{message.group_id}", reply.error_code)]


def _leave_group(message: Any, reply: Any) -> Errors:
    codes = [reply.error_code] if reply.error_code else [each.error_code for each in reply.members]
    return [(f"group-{message.group_id}", code) for code in codes]


def _offset_commit(message: Any, reply: Any) -> Errors:
    return [
        (f"group-{message.group_id}", part.error_code) for topic in reply.topics for part in topic.partitions
    ]


def _offset_fetch(message: Any, reply: Any) -> Errors:
    if not reply.groups:
        return [(f"group-{message.group_id}", reply.error_code)]
    return [(f"group-{each.group_id}", each.error_code) for each in reply.groups]


def _init_producer_id(message: Any, reply: Any) -> Errors:
    name = message.transactional_id
    return [(f"transaction-{name}" if name else f"producer-{message.producer_id}", reply.error_code)]


_READERS: Final[dict[int, Callable[[Any, Any], Errors]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _topics,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _group,
    ApiKey.SYNC_GROUP: _group,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}


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
