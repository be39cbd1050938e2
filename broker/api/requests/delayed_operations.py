"""Requests that wait in a purgatory: fetches for records, and appends for the disk.

Thousands of fetches that become ready together complete in batches of AT_ONCE, with other requests in
between.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Protocol, TypeVar, cast

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import AfterCommit, Outcome
from broker.log.background_jobs import Flush
from broker.partitions.fetching import DelayedFetch
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
