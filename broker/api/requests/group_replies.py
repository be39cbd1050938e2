"""Converts replies of the group coordinator to responses.

Called by the group handlers, by `server` for expirations and by `server.listeners` for deleted topics. A
handler passes a `GroupRequest` to the coordinator, which returns it with the reply, either at once or, for a
waiting request, from a later call. Responses are sent after the records of their call are committed.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final

from broker.api.requests.callbacks import Callback
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response, Sliced, StagedAppends, outcome_of
from broker.api.requests.services import GroupServices
from broker.common.slices import Slices, Steps
from broker.coordinator.group.consumer.assignment import Topics
from broker.coordinator.group.expiry import OnTimerFailure
from broker.coordinator.group.messages import Effects, Now, Token
from broker.coordinator.group_service import Writing
from broker.protocol.schema import Struct

LONGEST_NAME: Final = 8_000
"""Longest group or member name in characters; it must fit 32,767 bytes in an offsets topic record."""


class GroupRequest:
    """The token of a request, which builds its response from the coordinator's reply: a response that may be
    large in steps, after the records of the call are written.
    """

    __slots__ = ("_build", "context", "producer")

    def __init__(self, context: RequestContext, build: Callable[[Any], Struct | Steps[Struct]]) -> None:
        self.context = context
        self._build = build
        self.producer: tuple[int, int] | None = None
        """The id and epoch of the producer in whose transaction the records are."""

    def outcome(self, reply: Any) -> Outcome:
        response = self._build(reply)
        return Response(response) if isinstance(response, Struct) else outcome_of(_answered(response))


def _answered(response: Steps[Struct]) -> Slices[Outcome]:
    return Response((yield from response))


def _unprepared() -> Slices[None]:
    yield from ()


class DividedGroupRequest(GroupRequest):
    """A request that may be too large for one coordinator call.

    Each call of `calls` starts after the records of the previous call are written. `take` receives the reply
    of each, and `response` is the final response. Each part has its own errors; a failed part does not undo
    earlier parts. `rest` lists the parts that the calls have not consumed. `prepare` runs in slices before
    each call but the first, without a pause in between. None of them may reference the request's message,
    which is freed in slices after the first call.
    """

    __slots__ = ("_calls", "_prepare", "_reply", "_rest", "_services", "_take")

    def __init__(
        self,
        context: RequestContext,
        calls: Iterator[Callable[[Token], Effects | Steps[Effects]]],
        take: Callable[[Any], None],
        response: Struct,
        services: GroupServices,
        *rest: list[Any],
        prepare: Callable[[], Slices[None]] = _unprepared,
    ) -> None:
        super().__init__(context, lambda _reply: response)
        self._calls = calls
        self._take = take
        self._reply = response
        self._services = services
        self._rest = rest
        self._prepare = prepare

    def begin(self) -> Steps[Outcome]:
        """Make the first call; `calls` is not empty. Pauses where the call does."""
        return self._make(next(self._calls))

    def outcome(self, reply: Any) -> Outcome:
        self._take(reply)
        call = next(self._calls, None)
        if call is None:
            return Response(self._reply)
        return Sliced(self._turn(call), None, self._reply, *self._rest)

    def _turn(self, call: Callable[[Token], Effects | Steps[Effects]]) -> Slices[Outcome]:
        yield from self._prepare()
        return (yield from self._make(call))

    def _make(self, call: Callable[[Token], Effects | Steps[Effects]]) -> Steps[Outcome]:
        effects = call(self)
        if not isinstance(effects, Effects):
            effects = yield from effects
        return conclude(effects, self, self._services)


def now_of(context: RequestContext) -> Now:
    return Now(context.now_ms, context.wall_ms)


def conclude(effects: Effects, request: GroupRequest, services: GroupServices) -> Outcome:
    """Return the outcome of `request`; the replies to other requests are posted as callbacks."""
    if not effects.records:
        return _deliver(effects, request, services)
    writing = services.groups.write(effects, now_of(request.context), request.producer)
    logs = [log.log for log, _ in writing.written]
    return StagedAppends(logs, partial(_settle, writing, request, services))


def expire_groups(
    services: GroupServices, now_ms: int, wall_ms: int, on_failure: OnTimerFailure | None = None
) -> None:
    """Expire members and rebalances that are due. Never called from a handler's batch.

    `on_failure`: see `TimerExpiry.expire`.
    """
    _deliver(services.groups.expire(Now(now_ms, wall_ms), on_failure), None, services)


def forget_topics(
    services: GroupServices, topics: Topics, now_ms: Callable[[], int], wall_ms: Callable[[], int]
) -> Steps[None]:
    """Delete the committed offsets of deleted topics. Never called from a handler's batch."""
    for group_id, partitions in services.groups.coordinator.offsets.committed_in(topics):
        if partitions:
            now = Now(now_ms(), wall_ms())
            effects = services.groups.coordinator.offsets.partitions_deleted(
                group_id, partitions, topics, now
            )
            _deliver(services.groups.write_now(effects, now), None, services)
        yield


def forget_states(
    services: GroupServices,
    topic_ids: Collection[bytes],
    now_ms: Callable[[], int],
    wall_ms: Callable[[], int],
) -> Steps[None]:
    """Forget the share partitions of deleted topics. Never called from a handler's batch."""
    for group_id in services.groups.coordinator.share.with_states_of(topic_ids):
        if group_id is not None:
            now = Now(now_ms(), wall_ms())
            effects = yield from services.groups.coordinator.share.topics_gone(group_id, topic_ids, now)
            _deliver(services.groups.write_now(effects, now), None, services)
        yield


def release_groups(services: GroupServices) -> None:
    """Complete every waiting JoinGroup and SyncGroup at shutdown with NOT_COORDINATOR."""
    _deliver(services.groups.coordinator.release(), None, services)


def _settle(writing: Writing, request: GroupRequest, services: GroupServices) -> Outcome:
    """Return the outcome of a coordinator call whose records were staged."""
    return _deliver(services.groups.settle(writing, now_of(request.context)), request, services)


def _deliver(effects: Effects, request: GroupRequest | None, services: GroupServices) -> Outcome:
    outcome: Outcome = DELAYED
    others: list[Callback] = []
    for token, reply in effects.replies:
        assert isinstance(token, GroupRequest)
        if token is request:
            outcome = token.outcome(reply)
        else:
            others.append((token.context, partial(token.outcome, reply)))
    if others:
        services.callbacks.post_together(others)
    return outcome
