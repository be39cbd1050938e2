"""Requests that wait in a purgatory: fetches for records, appends for the disk, and responses for a delay.

Thousands of fetches that become ready together complete in batches of AT_ONCE, with other requests in
between. No thread waits, and the connection is not read meanwhile.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, cast

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, AfterCommit, MappedCommit, Outcome, Response
from broker.common.clock import Clock
from broker.log.background_jobs import Flush
from broker.partitions.fetching import DelayedFetch
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from broker.purgatory.purgatory import DelayedOperation, Purgatory

AT_ONCE: Final = 128
"""Requests completed in one turn; equals the number of requests that a handler serves in one turn."""


Op = TypeVar("Op", bound=DelayedOperation)


class _Pending(Protocol):
    """A fetch that waits; the fetch modules implement it."""

    context: RequestContext

    def response(self) -> Outcome: ...


class DelayedReads(Purgatory[Op]):
    """Waiting fetches of one kind.

    A handler builds each response when it takes up the callback, so the cost belongs to that request.
    """

    def __init__(self, name: str, callbacks: Callbacks, purge_interval: int) -> None:
        super().__init__(name, purge_interval)
        self._callbacks = callbacks

    def complete(self, key: Hashable) -> None:
        """Complete the fetches that watch the log `key` after an append or its deletion."""
        completed = self.check_and_complete(key, AT_ONCE)
        self._post(completed)
        if len(completed) == AT_ONCE:
            self._callbacks.check_again(key)

    def complete_expired(self, now_ms: int) -> None:
        """Complete the fetches whose `max_wait_ms` has elapsed, at most AT_ONCE; the others stay due."""
        self._post(self.expire(now_ms, AT_ONCE))

    def complete_all(self, now_ms: int) -> None:
        """Complete every fetch at shutdown as if it had timed out."""
        self._post(self.expire(now_ms + 2**31))

    def _post(self, settled: Iterable[Op]) -> None:
        for operation in settled:
            pending = cast(_Pending, operation.pending)  # type: ignore[attr-defined]
            self._callbacks.post(pending.context, pending.response)


class PendingShareFetch(Protocol):
    """A ShareFetch whose response is pending."""

    def try_acquire(self) -> bool:
        """Acquire records if that completes the fetch, and return whether it is complete."""


class DelayedShareFetch(DelayedOperation):
    """A ShareFetch that waits for an append, for a release, or for its timeout. (Kafka: DelayedShareFetch)
    `pending` builds the response.

    It watches the logs and the share partitions of its member. The first waiting fetch that is checked
    acquires what became available, so that the others wait on.
    """

    __slots__ = ("pending",)

    def __init__(self, timeout_ms: int, pending: PendingShareFetch) -> None:
        super().__init__(timeout_ms)
        self.pending = pending

    def is_ready(self) -> bool:
        return self.pending.try_acquire()


class DelayedShareFetches(DelayedReads[DelayedShareFetch]):
    """The waiting fetches of share groups. They watch logs and share partitions."""

    def __init__(self, callbacks: Callbacks, purge_interval: int = 1000) -> None:
        super().__init__("ShareFetch", callbacks, purge_interval)


class DelayedFetches(DelayedReads[DelayedFetch]):
    """The waiting fetches, and those of share groups, which wait for the same logs."""

    def __init__(
        self, callbacks: Callbacks, purge_interval: int = 1000, share_purge_interval: int = 1000
    ) -> None:
        super().__init__("Fetch", callbacks, purge_interval)
        self.share = DelayedShareFetches(callbacks, share_purge_interval)

    def complete(self, key: Hashable) -> None:
        super().complete(key)
        if self.share.watched:
            self.share.complete(key)


class DelayedProduce(DelayedOperation):
    """A Produce that waits for `flushes` (flush.messages). (Kafka: DelayedProduce)

    Kafka waits for other replicas and flushes on the handler's thread without a time limit. Here there is one
    replica, so the request waits for the flush, up to its own timeout. `network.handling.flush_waits`
    registers it under the partitions that need a flush.

    `after` is called once: `finish` if every flush succeeds, `fail` if one fails or the timeout elapses.
    """

    __slots__ = ("after", "context", "flushes")

    def __init__(self, context: RequestContext, after: AfterCommit, flushes: Sequence[Flush]) -> None:
        super().__init__(after.timeout_ms)
        self.context = context
        self.after = after
        self.flushes = flushes

    def is_ready(self) -> bool:
        return all(flush.in_effect().finished for flush in self.flushes)

    @property
    def is_flushed(self) -> bool:
        """Whether every flush succeeded; valid once the operation is ready."""
        return all(flush.in_effect().error is None for flush in self.flushes)


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
        if self._linger_ms <= 0 or not isinstance(outcome, AfterCommit):
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
