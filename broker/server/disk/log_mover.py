"""The task that moves partitions between log directories.

Limited to `replica.alter.log.dirs.io.max.bytes.per.second`. Started by `app`. (Kafka:
ReplicaAlterLogDirsThread)

All moves progress in turns of one slice each, so that a move that never catches up with its producers does
not delay the others. Copied bytes are recorded even without a limit. `log.moves` handles the files.
"""

import logging
from typing import Final

import trio

from broker.common.errors import ApiError
from broker.log.moves import Move, Original
from broker.log.store import LogStore
from broker.network.clock import TrioClock
from broker.quotas.replication import ReplicationQuotaManager
from broker.server.disk.tasks import BackgroundThreads

logger = logging.getLogger(__name__)

LOG_MOVER: Final = "log-mover"

MAX_SLICE_BYTES: Final = 16_777_216
MIN_SLICE_BYTES: Final = 4_096
SLICES_PER_SECOND: Final = 50
"""The rate of slices under a limit, while a move keeps up with it; one that is behind may copy more at
once.
"""


class LogMover:
    """Runs all moves. `poke` it after a new move or a change of the limit."""

    def __init__(
        self, store: LogStore, quota: ReplicationQuotaManager, threads: BackgroundThreads, clock: TrioClock
    ) -> None:
        self._store = store
        self._threads = threads
        self._moves = store.moves
        self._quota = quota
        self._clock = clock
        self._poked = trio.Event()
        self._moves.on_begun(self.poke)

    def poke(self) -> None:
        self._poked.set()

    async def run(self) -> None:
        """Run until cancelled; unfinished copies remain, and the next start continues them."""
        moves = self._moves
        while True:
            self._poked = trio.Event()
            for original in list(moves.originals):
                await self._remove_original(original)
            running = list(moves.running.values())
            if not running and not moves.originals:
                await self._poked.wait()
            for move in running:
                await self._wait_for_quota()
                if moves.is_running(move):
                    await self._run_step(move)

    async def _wait_for_quota(self) -> None:
        """Wait until the quota allows copying; a changed limit applies at once."""
        while wait_ms := self._quota.wait_ms(self._clock.ms()):
            with trio.move_on_after(wait_ms / 1000):
                await self._poked.wait()
            if self._poked.is_set():
                self._poked = trio.Event()

    async def _run_step(self, move: Move) -> None:
        before = move.copied
        try:
            source = self._store.directories.of(move.partition)
            step = self._moves.next_step(move, self._slice(), source)
            if step is not None:
                await self._threads.run(step.run)
                step.finish()
                if step.error is not None:
                    raise step.error
            self._quota.record(move.copied - before, self._clock.ms())
        except (OSError, ApiError) as error:
            if self._moves.is_running(move):
                self._moves.fail(move.partition)
                logger.error("a move between log directories failed", extra=_facts(move, reason=error))

    async def _remove_original(self, original: Original) -> None:
        """Delete the source of a finished move after flushing the new files, which must succeed first."""
        flush = original.partition.flush(self._clock.wall_ms())
        await self._threads.run(flush.run)
        flush.finish()
        partition = original.partition
        facts = {
            "partition": f"{partition.topic}-{partition.index}",
            "from": original.source.path,
            "to": partition.directory,
        }
        try:
            self._moves.remove_original(original, flush, self._clock.wall_ms())
            if flush.error is not None:
                raise flush.error
        except OSError as error:
            logger.error("the source of a move was not deleted", extra=facts | {"reason": str(error)})
        else:
            logger.info("moved a partition between log directories", extra=facts)

    def _slice(self) -> int:
        allowed = max(self._quota.bound / SLICES_PER_SECOND, self._quota.allowance(self._clock.ms()))
        return max(int(min(allowed, MAX_SLICE_BYTES)), MIN_SLICE_BYTES)


def _facts(move: Move, *, reason: Exception) -> dict[str, str]:
    partition = move.partition
    return {
        "partition": f"{partition.topic}-{partition.index}",
        "from": partition.directory,
        "to": move.target.path,
        "reason": str(reason),
    }
