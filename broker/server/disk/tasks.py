"""The disk tasks: flushing, retention, recovery points, and the threads that they share. Started by `app`.

A request appends to the page cache; longer blocking work runs in threads, started here.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from broker.common.slice_runner import run_slices
from broker.config.sections import LogConfig
from broker.log.background_jobs import BackgroundJob
from broker.log.store import LogStore
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import HandlerPool
from broker.network.supervisor import TaskStarter

logger = logging.getLogger(__name__)

REMOVAL_CHECK_MS: Final = 60_000
"""Maximum interval for deleting files whose `file.delete.delay.ms` has passed.

A shorter retention check interval replaces it.
"""

FLUSH_CHECK_MS: Final = 1_000
"""Maximum interval for checking partitions for a due `flush.ms`; ours, as Kafka's default never checks."""


RunInThread = Callable[[Callable[[], None]], Awaitable[None]]

FLUSHER_OF_ACKNOWLEDGED: Final = "log-flusher-of-acknowledged"


class BackgroundThreads:
    """The threads for blocking work that no request waits for: retention, timed flushes, recovery points and
    moves between log directories. (Kafka: KafkaScheduler)

    Runs at most `size` jobs at once; others wait in order of arrival. Work that a client or an administrator
    waits for runs in other threads: the metadata log, flushes before a response, telemetry exports and name
    look-ups.
    """

    def __init__(self, size: int) -> None:
        self._limiter = trio.CapacityLimiter(size)

    def resize(self, size: int) -> None:
        """Change the number of threads; running jobs continue."""
        self._limiter.total_tokens = size

    async def run(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread and wait for it.

        If cancelled while waiting for a thread, `work` has not run; if cancelled later, `work` finishes
        first.
        """
        await trio.to_thread.run_sync(work, limiter=self._limiter)


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
        jobs = await run_slices(log.retention(clock.wall_ms(), clock.ms()))
        await _finish(jobs, "cannot remove files", threads.run)

    async def flush() -> None:
        await _finish(log.due_flushes(clock.wall_ms()), "cannot flush", threads.run)

    async def checkpoint() -> None:
        await _finish([log.checkpoint()], "cannot write the recovery points", threads.run)

    async def expire_producers() -> None:
        await run_slices(log.expire_producers(clock.wall_ms()))

    log.note_clock(clock.wall_ms(), clock.ms())
    expiration_ms = config.producer_id_expiration_check_interval_ms
    retention_ms = min(config.retention_check_interval_ms, REMOVAL_CHECK_MS)
    flush_ms = min(config.flush_scheduler_interval_ms, FLUSH_CHECK_MS)
    first_ms = min(config.initial_task_delay_ms, retention_ms)
    nursery.start_soon(_every, retention_ms, retain, first_ms, name="log-retention")
    nursery.start_soon(_every, expiration_ms, expire_producers, name="log-producer-expiration")
    nursery.start_soon(_every, flush_ms, flush, name="log-flusher")
    nursery.start_soon(_every, config.flush_offset_checkpoint_interval_ms, checkpoint, name="log-checkpoint")
    nursery.start_soon(_flush_before_answering, handlers, name=FLUSHER_OF_ACKNOWLEDGED)


async def _every(interval_ms: int, work: Callable[[], Awaitable[None]], first_ms: int | None = None) -> None:
    """Do `work` again and again; for the first time after `first_ms`, or one interval."""
    await trio.sleep(max(interval_ms if first_ms is None else first_ms, 1) / 1000)
    while True:
        await work()
        await trio.sleep(max(interval_ms, 1) / 1000)


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
