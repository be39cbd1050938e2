"""Answers that wait for the disk: what flush.messages wants there before it is acknowledged.

Filled by the handler pool at the end of a batch, emptied by the flushing task of `storage`. Knows neither
files nor what is answered: only which answer needs which flush, and how long it may wait.
"""

from collections.abc import Callable, Iterable, Sequence

import trio

from broker.api.delayed_produce import DelayedProduce
from broker.api.outcome import AfterCommit
from broker.log.background_jobs import Flush
from broker.network.clock import TrioClock
from broker.network.handling.request import Request
from broker.network.reaper import Reaper
from broker.purgatory.purgatory import Purgatory

Waiting = list[tuple[Request, AfterCommit]]


class FlushWaits:
    """The Produce purgatory at work. `reaper` ends what has waited for its whole time-out."""

    def __init__(
        self,
        produces: Purgatory[DelayedProduce],
        node_id: int,
        clock: TrioClock,
        on_expired: Callable[[Waiting], None],
    ) -> None:
        self._produces = produces
        self._clock = clock
        self._asked: dict[object, Flush] = {}
        self._is_filled = trio.Event()

        def expire(now_ms: int) -> None:
            if expired := produces.expire(now_ms):
                on_expired(self._resumed(expired))

        name = f"ExpirationReaper-{node_id}-{produces.name}"
        self.reaper = Reaper(name, produces.next_deadline, expire, clock)

    @property
    def queued(self) -> int:
        """Flushes that the flushing task has not begun: one for a partition, however many wait for it."""
        return len(self._asked)

    def park(self, committed: Waiting, flushes: Sequence[Flush]) -> Waiting:
        """Has the flushes done, and parks whoever needs one of them; the others come back, to be answered at
        once.
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
            self._ask(flush)
        self._is_filled.set()
        self.reaper.poke()
        return at_once

    def _ask(self, flush: Flush) -> None:
        """What was asked for and not begun is left to the later flush, which covers it; so whoever came while
        the disk was busy shares the next turn. One that could not be prepared covers nothing.
        """
        key = flush.partition if flush.error is None else flush
        older = self._asked.get(key)
        if older is not None:
            older.leave_to(flush)
        self._asked[key] = flush

    async def next(self) -> Flush:
        """The next flush to be done; the caller does it, then calls `HandlerPool.flushed`."""
        while not self._asked:
            self._is_filled = trio.Event()
            await self._is_filled.wait()
        return self._asked.pop(next(iter(self._asked)))

    def ended(self, flush: Flush) -> tuple[Waiting, Waiting]:
        """Who waited for nothing else: those whose records the disk has, and the others."""
        flushed: list[DelayedProduce] = []
        failed: list[DelayedProduce] = []
        for operation in self._produces.check_and_complete(flush.partition):
            (flushed if operation.is_flushed else failed).append(operation)
        return self._resumed(flushed), self._resumed(failed)

    def _resumed(self, operations: Iterable[DelayedProduce]) -> Waiting:
        """They are answered now, and what their answers record is recorded now."""
        now_ms, wall_ms = self._clock.ms(), self._clock.wall_ms()
        found: Waiting = []
        for operation in operations:
            request = operation.context
            assert isinstance(request, Request)
            request.now_ms, request.wall_ms = now_ms, wall_ms
            found.append((request, operation.after))
        return found
