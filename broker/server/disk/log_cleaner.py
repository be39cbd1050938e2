"""The tasks that compact logs, each one log at a time (Kafka's CleanerThread).

Started by `server.parts.storage`. Reading and writing run in threads, a piece of
`log.cleaner.io.buffer.size` at a time; between pieces a task waits as `log.cleaner.io.max.bytes.per.second`
requires. `broker.log.cleaner` decides what is removed.

Reading records is work in Python, during which the event loop waits. So a thread rests after each few
records, and takes the interpreter for a fifth of a millisecond at a time, and for half of the time at most.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from errno import EDQUOT, ENOSPC
from typing import Any, Final

import trio

from broker.common.errors import ApiError
from broker.common.slice_runner import run_slices
from broker.config.sections import LogCleanerConfig
from broker.log import disk
from broker.log.cleaner.cleaning import Cleaning, CleaningLimits, Copy, LogChanged, Piece
from broker.log.cleaner.manager import Cleanable, CleanerManager, LastRun
from broker.log.cleaner.pace import Pace
from broker.log.partition import PartitionLog
from broker.network.clock import TrioClock

logger = logging.getLogger(__name__)

LOG_CLEANER: Final = "log-cleaner"
THREAD: Final = "kafka-log-cleaner-thread-{}"

REST_SECONDS: Final = 0.000_2
"""A rest of a cleaner thread; ours. It wakes the event loop if that waits for the interpreter."""

CREDIT_MS: Final = 300
"""Time without reading or writing that counts for later pieces. (Kafka: the Throttler's interval)"""

_NO_SPACE: Final = (ENOSPC, EDQUOT)

MAX_MAP_BYTES: Final = 0x7FFF_FFFF


class Throttler:
    """The limit of bytes per second of all threads."""

    def __init__(self) -> None:
        self._paid_until_ms = 0.0

    def wait_ms(self, nbytes: int, bytes_per_second: float, now_ms: int) -> float:
        """Record bytes and return how long to wait before the next ones."""
        start_ms = max(self._paid_until_ms, now_ms - CREDIT_MS)
        self._paid_until_ms = start_ms + nbytes * 1000 / bytes_per_second
        return max(self._paid_until_ms - now_ms, 0.0)


class LogCleaner:
    """Runs the passes. `reconfigure` it after a change; a pass in progress keeps its buffers."""

    def __init__(
        self,
        manager: CleanerManager,
        config: LogCleanerConfig,
        clock: TrioClock,
        rest: Callable[[], object] = lambda: time.sleep(REST_SECONDS),
        run: Callable[..., Awaitable[Any]] = trio.to_thread.run_sync,
    ) -> None:
        """`rest` is called within a thread, `run` runs a function in one."""
        self.manager = manager
        self._config = config
        self._clock = clock
        self._rest = rest
        self._run = run
        self._throttle = Throttler()
        self._resized = trio.Event()

    def reconfigure(self, config: LogCleanerConfig) -> None:
        """Apply new settings. Another number of threads ends the passes in progress, which begin anew."""
        old, self._config = self._config, config
        if (old.threads, old.backoff_ms) != (config.threads, config.backoff_ms):
            self._resized.set()

    @property
    def limits(self) -> CleaningLimits:
        """The memory that the next pass may use."""
        config = self._config
        threads = max(config.threads, 1)
        return CleaningLimits(
            min(config.dedupe_buffer_size // threads, MAX_MAP_BYTES),
            config.dedupe_buffer_load_factor,
            config.io_buffer_size // threads // 2,
        )

    @property
    def bytes_per_second(self) -> float:
        """The limit of bytes that all threads read and write in a second."""
        return self._config.io_max_bytes_per_second

    async def run(self) -> None:
        """Run until cancelled; what a pass has not finished remains as it was."""
        while True:
            self._resized = trio.Event()
            async with trio.open_nursery() as nursery:
                for number in range(self._config.threads):
                    nursery.start_soon(self._clean_forever, number, name=THREAD.format(number))
                await self._resized.wait()
                nursery.cancel_scope.cancel()

    async def _clean_forever(self, thread: int) -> None:
        while True:
            if not await self.clean_next(thread):
                await trio.sleep(self._config.backoff_ms / 1000)

    async def clean_next(self, thread: int = 0) -> bool:
        """Clean the dirtiest log that is due. Return whether there was one."""
        manager = self.manager
        part = await run_slices(manager.choose(self._clock.wall_ms()))
        if part is None:
            await trio.lowlevel.checkpoint()
            return False
        log = part.log
        try:
            run = await self._clean(part)
            manager.done(part, run, thread)
            _report(part, run)
        except LogChanged:
            return False
        except (ApiError, OSError) as error:
            return self._failed(log, error)
        except Exception as error:
            logger.exception("a pass of the log cleaner failed")
            manager.fail(log, str(error))
            return False
        finally:
            manager.leave(log)
        return True

    def _failed(self, log: PartitionLog, error: ApiError | OSError) -> bool:
        if log.deleted or log.offline is not None:
            return False
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            logger.warning(
                "no space to compact a log; it is tried again",
                extra={"partition": f"{log.topic}-{log.index}", "reason": str(error)},
            )
        else:
            self.manager.fail(log, str(error))
        return False

    async def _clean(self, part: Cleanable) -> LastRun:
        """Run one pass. Raises LogChanged, ApiError, OSError."""
        clock, log = self._clock, part.log
        began_ms = clock.ms()
        cleaning = Cleaning(part, self.limits, clock.wall_ms(), Pace(self._rest))
        stats = cleaning.stats
        await self._run_pieces(cleaning.index())
        stats.index_ms, stats.utilization = clock.ms() - began_ms, cleaning.utilization
        if cleaning.end_offset <= part.first_dirty:
            raise OSError("the offset map cannot hold the keys of one batch")
        for group in cleaning.groups():
            copy = cleaning.begin(group)
            try:
                await self._run_pieces(cleaning.write(copy))
                if not self.manager.may_replace(log):
                    raise LogChanged
                replaced = copy.replace()
            finally:
                copy.discard()
            self.manager.store.remove_later(log, replaced, clock.wall_ms())
            await self._flush_names(copy)
        stats.elapsed_ms = clock.ms() - began_ms
        return LastRun(clock.wall_ms(), part.first_dirty, cleaning.end_offset, stats)

    async def _flush_names(self, copy: Copy) -> None:
        await self._run(disk.flush_directory, copy.segment.directory)

    async def _run_pieces(self, pieces: Piece) -> None:
        """Run each piece in a thread, and wait as the limit of bytes per second requires."""
        while True:
            nbytes = await self._run(next, pieces, None)
            if nbytes is None:
                return
            wait_ms = self._throttle.wait_ms(nbytes, self.bytes_per_second, self._clock.ms())
            if wait_ms > 0:
                await trio.sleep(wait_ms / 1000)


def _report(part: Cleanable, run: LastRun) -> None:
    log, stats = part.log, run.stats
    logger.info(
        "compacted a log",
        extra={
            "partition": f"{log.topic}-{log.index}",
            "dirty_from": run.first_dirty,
            "dirty_to": run.end_offset,
            "bytes_before": stats.bytes_read,
            "bytes_after": stats.bytes_written,
            "records_before": stats.records_read,
            "records_after": stats.records_written,
            "ms": stats.elapsed_ms,
        },
    )
    if stats.keyless:
        logger.warning(
            "removed records without a key from a compacted log",
            extra={"partition": f"{log.topic}-{log.index}", "records": stats.keyless},
        )
