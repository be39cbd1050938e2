"""The disk tasks: flushing, retention, and the writer of the metadata log. Started by `app`.

A request appends to the page cache; longer blocking work runs in threads, started here.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from broker.config.sections import LogConfig
from broker.disk.background import BackgroundThreads
from broker.errors import FatalExitError
from broker.log.background_jobs import BackgroundJob
from broker.log.store import LogStore
from broker.metadata.actor import Actor
from broker.metadata.audit import AuditFilter, AuditRow
from broker.metadata.changes import Change
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import HandlerPool
from broker.network.supervisor import LastError, TaskStarter
from broker.steps import Steps

logger = logging.getLogger(__name__)

REMOVAL_CHECK_MS: Final = 60_000
"""Maximum interval for deleting files whose `file.delete.delay.ms` has passed.

A shorter retention check interval replaces it.
"""

FLUSH_CHECK_MS: Final = 1_000
"""Maximum interval for checking partitions for a due `flush.ms`; ours, as Kafka's default never checks."""


SLICE_S: Final = 0.001
"""Duration of a slice of a long change between two checkpoints."""

Result = TypeVar("Result")

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]

FLUSHER_OF_ACKNOWLEDGED: Final = "log-flusher-of-acknowledged"


class MetadataWriter:
    """A `broker.control.committer.Committer` that commits in a thread, one set of changes at a time.

    Reports fatal errors to `last_error`.
    """

    def __init__(self, store: MetadataStore, clock: TrioClock) -> None:
        self.last_error = LastError()
        self._store = store
        self._clock = clock
        self._lock = trio.Lock()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._lock:
            try:
                yield
            except FatalExitError as error:
                self.last_error.report(error)
                raise

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Return the image after the change. Cancellation does not abandon a running thread."""
        return await trio.to_thread.run_sync(self._store.commit, changes, actor, self._clock.wall_ms())

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """Run `steps` in slices and return their result. A small change runs without a pause."""
        with trio.CancelScope(shield=to_the_end):
            return await _in_slices(steps)
        raise AssertionError("unreachable: this scope is never cancelled")

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        async with self._lock:
            return await trio.to_thread.run_sync(self._store.history, wanted)


def start_storage(
    nursery: TaskStarter,
    log: LogStore,
    config: LogConfig,
    handlers: HandlerPool,
    threads: BackgroundThreads,
    clock: TrioClock,
) -> None:
    """Start the tasks that run as long as the broker."""

    async def retain() -> None:
        await _finish(log.retention(clock.wall_ms(), clock.ms()), "cannot remove files", threads.run)

    async def flush() -> None:
        await _finish(log.due_flushes(clock.wall_ms()), "cannot flush", threads.run)

    async def checkpoint() -> None:
        await _finish([log.checkpoint()], "cannot write the recovery points", threads.run)

    async def expire_producers() -> None:
        log.expire_producers(clock.wall_ms())

    log.note_clock(clock.wall_ms(), clock.ms())
    expiration_ms = config.producer_id_expiration_check_interval_ms
    retention_ms = min(config.retention_check_interval_ms, REMOVAL_CHECK_MS)
    flush_ms = min(config.flush_scheduler_interval_ms, FLUSH_CHECK_MS)
    nursery.start_soon(_every, retention_ms, retain, name="log-retention")
    nursery.start_soon(_every, expiration_ms, expire_producers, name="log-producer-expiration")
    nursery.start_soon(_every, flush_ms, flush, name="log-flusher")
    nursery.start_soon(_every, config.flush_offset_checkpoint_interval_ms, checkpoint, name="log-checkpoint")
    nursery.start_soon(_flush_before_answering, handlers, name=FLUSHER_OF_ACKNOWLEDGED)


async def _in_slices(steps: Steps[Result]) -> Result:
    until = time.perf_counter() + SLICE_S
    was_long = False
    while True:
        try:
            next(steps)
        except StopIteration as end:
            if was_long:  # what follows begins a slice of its own
                await trio.lowlevel.checkpoint()
            result: Result = end.value
            return result
        if time.perf_counter() >= until:
            was_long = True
            await trio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE_S


async def _every(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await trio.sleep(max(interval_ms, 1) / 1000)
        await work()


async def _flush_before_answering(handlers: HandlerPool) -> None:
    """Flush for flush.messages: the response to an append is sent once its records are on the disk."""
    while True:
        flush = await handlers.flush_waits.next()
        await _finish([flush], "cannot flush")
        handlers.flushed(flush)


async def _finish(
    jobs: Sequence[BackgroundJob], failure: str, run: RunInThread = trio.to_thread.run_sync
) -> None:
    """Run the jobs' blocking parts in threads, one after the other, and finish them here.

    Logs one line for all failures.
    """
    failed: list[OSError] = []
    for job in jobs:
        await run(job.run)
        job.finish()
        if job.error is not None:
            failed.append(job.error)
    if failed:
        logger.error(failure, extra={"reason": str(failed[0]), "times": len(failed)})
