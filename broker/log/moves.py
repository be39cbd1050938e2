"""Runs the moves between log directories (Kafka's ReplicaAlterLogDirsManager, KIP-113).

Owned by the store; the composition root requests steps, runs them in threads and sets their rate.

A partition switches over synchronously on the event loop: its last records are copied, the copy's directory
is renamed to the partition's name, and the log object continues with the new files. The old directory keeps
its name until the new files are flushed. So at least one directory holds every record at any time, and a
start that finds two uses the more complete one.
"""

import os
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.errors import ApiError, ErrorCode
from broker.log import disk, layout
from broker.log.background_jobs import Flush
from broker.log.directory import LogDirectory
from broker.log.layout import DELETED, DELETED_DIRECTORY, FUTURE_DIRECTORY, aside_directory
from broker.log.move import Move, Step
from broker.log.partition import PartitionLog

SWAPPED_AT_ONCE: Final = 4_194_304
"""Maximum bytes of records copied on the event loop, which takes some milliseconds.

A producer that writes more than this during each copied slice postpones the switch indefinitely.
"""


class Original(NamedTuple):
    """The old directory of a moved partition, in `source`."""

    partition: PartitionLog
    source: LogDirectory
    directory: str


class Moves:
    """All moves.

    `running` moves have a growing copy. `originals` wait until the new files are flushed. `on_begun` is
    called when a move is added; `remove(paths, due_wall_ms)` schedules removal.
    """

    def __init__(self, remove: Callable[[list[str], int], None]) -> None:
        self.running: dict[PartitionLog, Move] = {}
        self.originals: list[Original] = []
        self.failed = 0
        self.on_begun: Callable[[], None] = lambda: None
        self._remove = remove

    def request(self, partition: PartitionLog, source: LogDirectory, target: LogDirectory) -> None:
        """Move the partition to `target`, replacing a running move to another directory.

        A running move to `target` continues. Raises ApiError INVALID_TOPIC_EXCEPTION, OSError.
        """
        running = self.running.get(partition)
        if running is not None and running.target is target:
            return
        self.cancel(partition)
        if target is source:
            return
        try:
            name = layout.future_directory(partition.topic, partition.index, uuid.uuid4().hex)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        move = Move(partition, target, os.path.join(target.path, name))
        move.begin()
        self._add(move)

    def resume(self, partition: PartitionLog, target: LogDirectory, directory: str) -> None:
        """Continue with a copy that was found at startup, at most one per partition."""
        move = Move(partition, target, directory)
        if partition in self.running:
            self.discard(directory)
            return
        try:
            move.resume()
        except OSError:
            self.discard(directory)
            return
        self._add(move)

    def _add(self, move: Move) -> None:
        self.running[move.partition] = move
        move.target.count += 1
        self.on_begun()

    def cancel(self, partition: PartitionLog) -> None:
        """Cancel the partition's move, if any, and remove the copy."""
        move = self.running.pop(partition, None)
        if move is not None:
            move.target.count -= 1
            self.discard(move.directory)

    def fail(self, partition: PartitionLog) -> None:
        """Cancel the partition's move and count the failure."""
        if partition in self.running:
            self.failed += 1
            self.cancel(partition)

    def discard(self, directory: str) -> None:
        """Remove an obsolete copy. If it cannot be renamed, the next start finds it again."""
        aside = directory.removesuffix(FUTURE_DIRECTORY) + DELETED_DIRECTORY
        try:
            disk.rename(directory, aside)
        except OSError:
            aside = directory
        self._remove([aside], 0)

    def forget(self, partition: PartitionLog) -> None:
        """Cancel and clean up the moves of a partition that is being deleted. Raises OSError."""
        self.cancel(partition)
        for each in [each for each in self.originals if each.partition is partition]:
            self.originals.remove(each)
            self._put_aside(each, 0)

    def is_running(self, move: Move) -> bool:
        return self.running.get(move.partition) is move

    def next_step(self, move: Move, most: int, source: LogDirectory) -> Step | None:
        """Return the next step to run in a thread, at most `most` bytes of records; None after the switch.

        Raises OSError, ApiError for an offline partition; the original is unchanged.
        """
        if move.partition.offline is not None:
            raise move.partition.refusal()
        missing = move.missing
        if missing is None or missing > min(most, SWAPPED_AT_ONCE):
            return move.next_step(most)
        self._swap(move, source)
        return None

    def _swap(self, move: Move, source: LogDirectory) -> None:
        partition, target, old = move.partition, move.target, move.partition.directory
        key = partition.topic, partition.index
        move.catch_up()
        stale = move.stale_files()
        for path in stale:
            disk.rename(path, path + DELETED)
        if partition.log_start_offset:
            target.starts.set(key, partition.log_start_offset)
        else:
            target.starts.drop(key)
        directory = os.path.join(target.path, layout.partition_directory(*key))
        disk.rename(move.directory, directory)
        partition.move_to(directory, target.starts, move.flushed_offset)
        del self.running[partition]
        source.count -= 1
        self.originals.append(Original(partition, source, old))
        self._remove([os.path.join(directory, os.path.basename(path) + DELETED) for path in stale], 0)

    def flush(self, original: Original, now_wall_ms: int) -> Flush:
        """Return the flush that must succeed before the original is removed."""
        return original.partition.flush(now_wall_ms)

    def let_go(self, original: Original, flushed: Flush, now_wall_ms: int) -> None:
        """Remove the original after its flush.

        If the flush failed, the original stays for the next start, which uses the better copy. Raises
        OSError.
        """
        if original in self.originals:
            self.originals.remove(original)
            if flushed.error is None:
                self._put_aside(original, now_wall_ms + original.partition.settings.file_delete_delay_ms)

    def _put_aside(self, original: Original, due_wall_ms: int) -> None:
        partition, source, directory = original
        aside = aside_directory(directory, uuid.uuid4().hex, DELETED_DIRECTORY)
        disk.rename(directory, aside)
        self._remove([aside], due_wall_ms)
        source.starts.drop((partition.topic, partition.index))
