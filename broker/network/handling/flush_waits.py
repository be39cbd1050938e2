"""Responses that wait for a flush, which flush.messages requires before acknowledgement.

The handler pool adds requests at the end of a batch; the flushing task of `storage` completes them.
Independent of files and responses: it maps requests to the flushes that they need, and to their timeouts.
"""

from collections.abc import Callable, Iterable, Sequence

import trio

from broker.api.requests.delayed_operations import DelayedProduce
from broker.api.requests.outcome import AfterCommit
from broker.log.background_jobs import Flush
from broker.network.clock import TrioClock
from broker.network.reaper import Reaper
from broker.network.requests.request_channel import Request
from broker.purgatory.purgatory import Purgatory

Waiting = list[tuple[Request, AfterCommit]]


class FlushWaits:
    """The Produce purgatory. `reaper` expires requests at their timeout."""

    def __init__(
        self,
        produces: Purgatory[DelayedProduce],
        node_id: int,
        clock: TrioClock,
        on_expired: Callable[[Waiting], None],
    ) -> None:
        self._produces = produces
        self._clock = clock
        self._queued: dict[object, Flush] = {}
        self._is_filled = trio.Event()

        def expire(now_ms: int) -> None:
            if expired := produces.expire(now_ms):
                on_expired(self._resumed(expired))

        name = f"ExpirationReaper-{node_id}-{produces.name}"
        self.reaper = Reaper(name, produces.next_deadline, expire, clock)
        produces.on_deadline = self.reaper.wake_by

    @property
    def queued(self) -> int:
        """The number of flushes not yet started, at most one per partition."""
        return len(self._queued)

    def delay(self, committed: Waiting, flushes: Sequence[Flush]) -> Waiting:
        """Queue the flushes and delay the requests that need one of them. Returns the other requests, to be
        answered immediately.
        """
        flush_of = {flush.partition: flush for flush in flushes}
        now_ms, now_ns = self._clock.ms(), self._clock.ns()
        at_once: Waiting = []
        for request, after in committed:
            needed = [flush_of[log] for log in dict.fromkeys(after.logs) if log in flush_of]
            if needed:
                request.local_complete = now_ns
                operation = DelayedProduce(request, after, needed)
                logs = [flush.partition for flush in needed]
                self._produces.try_complete_else_watch(operation, logs, now_ms)
            else:
                at_once.append((request, after))
        for flush in flushes:
            self._queue(flush)
        self._is_filled.set()
        return at_once

    def _queue(self, flush: Flush) -> None:
        """Queue a flush in place of an earlier, not yet started one of its partition, which it covers:
        requests that arrive while the disk is busy share the next flush. A flush whose preparation failed
        covers nothing.
        """
        key = flush.partition if flush.error is None else flush
        older = self._queued.get(key)
        if older is not None:
            older.leave_to(flush)
        self._queued[key] = flush

    async def next(self) -> Flush:
        """Wait for the next flush. The caller performs it, then calls `HandlerPool.flushed`."""
        while not self._queued:
            self._is_filled = trio.Event()
            await self._is_filled.wait()
        return self._queued.pop(next(iter(self._queued)))

    def ended(self, flush: Flush) -> tuple[Waiting, Waiting]:
        """Return the requests that need no other flush: first those whose records are
        on disk, then the failed ones.
        """
        flushed: list[DelayedProduce] = []
        failed: list[DelayedProduce] = []
        for operation in self._produces.check_and_complete(flush.partition):
            (flushed if operation.is_flushed else failed).append(operation)
        return self._resumed(flushed), self._resumed(failed)

    def _resumed(self, operations: Iterable[DelayedProduce]) -> Waiting:
        """Set the time of the requests to now, since their responses record it."""
        now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
        found: Waiting = []
        for operation in operations:
            request = operation.context
            assert isinstance(request, Request)
            request.now_ms, request.wall_ms = now_ms, wall_ms
            found.append((request, operation.after))
        return found
