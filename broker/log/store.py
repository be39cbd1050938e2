"""All partitions on this broker's disks (Kafka's LogManager).

Created once by the composition root and called by the services. Manages directories and partitions.

`open` and `close` block; the other methods belong to the event loop's thread and return long-running work as
background jobs, which run in other threads.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from broker.common.errors import ApiError
from broker.common.slices import Steps, run_through
from broker.config.sections.log import LogConfig
from broker.config.sections.topics import TopicSettings
from broker.log.background_jobs import BackgroundJob, Checkpoint, Flush, Removal
from broker.log.directories import NO_TOPIC_ID, LogDirectories, LogDirectory, OpenedLogs
from broker.log.disk import NO_DESCRIPTORS, OpenFiles
from broker.log.layout import DELETED_DIRECTORY, STRAY_DIRECTORY
from broker.log.log_context import LogContext
from broker.log.moves import Moves
from broker.log.partition import PartitionLog, storage_error
from broker.log.recovery import Missing, Recovery
from broker.log.retention import ClockSteps
from broker.log.slice import MappedWindows, Sendfile, Transfer
from broker.log.staged import FailedAppend

_NONE_FAILED: Final[tuple[FailedAppend[PartitionLog], ...]] = ()


class LogStore:
    """All partition logs. Call `open` first and `close` last."""

    def __init__(self, config: LogConfig, descriptors: int | None = None) -> None:
        """Create the store.

        `descriptors`: the process's limit (RLIMIT_NOFILE); segments use at most half of it, regardless of
        log.max.open.files.
        """
        self.config = config
        transfer: Transfer = (
            MappedWindows(config.mapped_max_bytes) if config.transfer == "mmap" else Sendfile()
        )
        max_files = config.max_open_files
        if descriptors is not None:
            max_files = min(max_files, descriptors // 2)
        self._context: LogContext[PartitionLog] = LogContext(OpenFiles(max_files), transfer)
        self.overdue: Final = self._context.overdue
        """The partitions whose committed appends may be acknowledged only after `overdue_flushes`."""
        self.directories = LogDirectories(
            config.dirs, self._context, lambda path: self.config.is_cordoned(path)
        )
        self._partitions: OpenedLogs = {}
        self._removable: list[tuple[int, list[str]]] = []
        self._clock_steps = ClockSteps()
        self._next_check_ms: int | None = None
        self.moves = Moves(lambda paths, due_ms: self._removable.append((due_ms, paths)))

    def open(self, defaults: TopicSettings | None = None) -> Recovery:
        """Open every partition with the settings `defaults` until `create_partition` sets the topic's own.

        Blocks for as long as recovery takes. A directory or partition that cannot be read goes offline.
        Raises OSError when no directory is usable, or another broker uses one.
        """
        recovery = Recovery()
        self._partitions = self.directories.open(defaults or TopicSettings(), recovery)
        if self.directories.removable:
            self._removable.append((0, self.directories.removable))
        for directory in self.directories.online:
            for key, copy in directory.futures:
                self._resume_move(self._partitions.get(key), directory, copy)
        return recovery

    def _resume_move(self, partition: PartitionLog | None, target: LogDirectory, copy: str) -> None:
        is_wanted = partition is not None and partition.offline is None
        if partition is None or not is_wanted or self.directories.of(partition) is target:
            self.moves.discard(copy)
        else:
            self.moves.resume(partition, target, copy)

    def reconfigure(self, config: LogConfig) -> None:
        """Apply a new producer.id.expiration.ms from the next `retention` on, and cordoned.log.dirs from the
        next new partition on. Other keys are static.
        """
        self.config = config

    def on_offline(self, callback: Callable[[PartitionLog], None]) -> None:
        """Register a callback for each partition that goes offline."""
        self._context.offline_listeners.append(callback)

    @property
    def gapped(self) -> Collection[PartitionLog]:
        """Partitions with missing records."""
        return self._context.gapped.keys()

    @property
    def offline(self) -> Collection[PartitionLog]:
        """Partitions that are unusable until the next start."""
        return self._context.offline.keys()

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def partition(self, topic: str, index: int) -> PartitionLog | None:
        return self._partitions.get((topic, index))

    def create_partition(
        self, topic: str, topic_id: bytes, index: int, settings: TopicSettings
    ) -> PartitionLog:
        """Return the partition with these settings, creating it if missing.

        A log of this name with another topic id is renamed first. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        try:
            known = self._open_or_make(topic, topic_id, index, settings)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise storage_error(error) from error
            self._context.files.shrink(error)
            try:
                known = self._open_or_make(topic, topic_id, index, settings)
            except OSError as again:
                raise storage_error(again) from again
        known.adopt(settings)
        self._partitions[topic, index] = known
        return known

    def _open_or_make(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> PartitionLog:
        """Return the existing log or create one. Raises OSError."""
        known = self._known(topic, topic_id, index)
        return known or self.directories.place(topic, index).create(topic, topic_id, index, settings)

    @property
    def max_open_files(self) -> int:
        """Maximum number of open segment and index files."""
        return self._context.files.capacity

    def _known(self, topic: str, topic_id: bytes, index: int) -> PartitionLog | None:
        known = self._partitions.get((topic, index))
        if known is None or known.topic_id == topic_id or known.offline is not None:
            return known
        if known.topic_id == NO_TOPIC_ID:
            self.directories.of(known).set_topic_id(known, topic_id)
            return known
        # Its topic may be deleted, or its partition.metadata damaged: neither justifies deleting records.
        self._rename_away(known, STRAY_DIRECTORY)
        return None

    def mark_missing_offline(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> None:
        """Mark a partition as offline if no readable directory has it but an offline one may.

        A new log would start at offset 0.
        """
        directory = self.directories.first_offline
        if directory is not None and (topic, index) not in self._partitions:
            self._partitions[topic, index] = directory.placeholder(topic, topic_id, index, settings)

    def restore_absent(
        self, topic: str, topic_id: bytes, count: int, settings: TopicSettings
    ) -> list[Missing]:
        """Recreate partitions of an existing topic whose folders are missing though they had flushed records.

        Each continues after its last flushed offset, so that no offset is assigned twice. Raises ApiError
        KAFKA_STORAGE_ERROR.
        """
        missing = []
        for directory in self.directories.online:
            for (name, index), end in list(directory.absent.items()):
                if name != topic or index >= count or (topic, index) in self._partitions:
                    continue
                try:
                    made = directory.create(topic, topic_id, index, settings, end)
                except OSError as error:
                    raise storage_error(error) from error
                self._partitions[topic, index] = made
                missing.append(Missing(topic, index, 0, end))
        return missing

    def forget_deleted(self) -> Steps[None]:
        """Remove deleted partitions from the recovery points, with one file write per directory.

        Otherwise a new topic of the same name would look like one that has lost its folders.
        """
        partitions = list(self)
        for directory in self.directories.online:
            with contextlib.suppress(OSError):
                yield from directory.write_recovery_points(partitions)

    def move(self, partition: PartitionLog, target: LogDirectory) -> None:
        """Start moving the partition to `target`, or cancel a move if the partition is already there.

        Raises ApiError INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR.
        """
        if partition.offline is not None or partition.deleted:
            raise partition.refusal()
        try:
            self.moves.request(partition, self.directories.of(partition), target)
        except OSError as error:
            raise storage_error(error) from error

    def delete_partition(self, topic: str, index: int) -> None:
        """Delete the partition for every caller at once.

        Raises ApiError KAFKA_STORAGE_ERROR.

        Slices on their way to readers stay readable; the next `retention` removes the files.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            return
        if self.directories.of(partition).offline is not None:
            del self._partitions[topic, index]
            partition.delete()
            return
        try:
            self._removable.append((0, [self._rename_away(partition, DELETED_DIRECTORY)]))
        except OSError as error:
            raise storage_error(error) from error

    def _rename_away(self, partition: PartitionLog, suffix: str) -> str:
        """Forget the partition and rename its directory so that no start opens it. Raises OSError."""
        del self._partitions[partition.topic, partition.index]
        self.moves.forget(partition)
        return self.directories.rename_away(partition, suffix)

    def commit(self) -> Sequence[FailedAppend[PartitionLog]]:
        """Write everything that is staged, one system call per partition, and return the failed appends."""
        context = self._context
        dirty, failed = context.dirty, context.failed
        context.inspected = 0
        if dirty:
            for partition in dirty:
                partition.commit()
            dirty.clear()
        if not failed:
            return _NONE_FAILED
        reported = tuple(failed)
        failed.clear()
        return reported

    @property
    def rolls(self) -> int:
        """The number of segments rolled since the start."""
        return self._context.rolls

    @property
    def failures(self) -> int:
        """The number of times that staged batches were lost, or a partition went offline, since the start."""
        return self._context.failures

    def overdue_flushes(self) -> list[Flush]:
        """Return flushes of the partitions with at least flush.messages unflushed records."""
        overdue = list(self._context.overdue)
        self._context.overdue.clear()
        return [partition.flush(self._context.unflushed.get(partition, 0)) for partition in overdue]

    def due_flushes(self, now_wall_ms: int) -> list[Flush]:
        """Return flushes of closed segments and of partitions with records older than flush.ms."""
        context = self._context
        due = [
            partition.flush(now_wall_ms)
            for partition, since_ms in context.unflushed.items()
            if now_wall_ms - since_ms >= partition.settings.flush_ms
        ]
        due += [partition.flush(now_wall_ms, sealed_only=True) for partition in context.rolled]
        context.rolled.clear()
        return due

    def expire_producers(self, now_wall_ms: int) -> Steps[None]:
        """Remove producers that were idle for `producer.id.expiration.ms`."""
        before_ms = now_wall_ms - self.config.producer_id_expiration_ms
        for partition in list(self):
            if partition.adopted:
                yield from partition.producers.expire(before_ms)
            yield

    def note_clock(self, now_wall_ms: int, now_ms: int) -> None:
        """Set the reference for detecting clock steps; the first check for expired segments is due
        log.initial.task.delay.ms later, or log.retention.check.interval.ms if that is less. (Kafka checks
        first after the delay, however short the interval.)
        """
        self._clock_steps.is_trusted(now_wall_ms, now_ms, 0)
        delay_ms, interval_ms = self.config.initial_task_delay_ms, self.config.retention_check_interval_ms
        self._next_check_ms = now_ms + min(delay_ms, interval_ms)

    def retention(self, now_wall_ms: int, now_ms: int | None = None) -> Steps[list[BackgroundJob]]:
        """Delete expired segments and return jobs that remove files whose delay is over.

        Call again after the shortest file.delete.delay.ms. `now_ms` is monotonic: segments are deleted at
        most once in log.retention.check.interval.ms, and for that long not after a large forward step of the
        wall clock. Without `now_ms` a check is due and the wall clock is trusted.
        """
        self._context.files.recover()
        is_due = now_ms is None or self._is_check_due(now_wall_ms, now_ms)
        for partition in list(self) if is_due else ():
            yield
            while partition.adopted and not partition.deleted:
                try:
                    paths = partition.retire(now_wall_ms)
                except ApiError:
                    # The disk is full, or cannot be read: the next round retries.
                    break
                if not paths:
                    break
                self.remove_later(partition, paths, now_wall_ms)
                yield
        due = [paths for due_ms, paths in self._removable if due_ms <= now_wall_ms]
        self._removable = [each for each in self._removable if each[0] > now_wall_ms]
        return [Removal(paths) for paths in due]

    def _is_check_due(self, now_wall_ms: int, now_ms: int) -> bool:
        """Return whether segments may be deleted now; if so, the next check is due one interval later."""
        interval_ms = self.config.retention_check_interval_ms
        if not self._clock_steps.is_trusted(now_wall_ms, now_ms, interval_ms):
            return False
        if self._next_check_ms is not None and now_ms < self._next_check_ms:
            return False
        self._next_check_ms = now_ms + interval_ms
        return True

    def remove_later(self, log: PartitionLog, paths: list[str], now_wall_ms: int) -> None:
        """Let `retention` remove renamed files of a log after its file.delete.delay.ms."""
        self._removable.append((now_wall_ms + log.settings.file_delete_delay_ms, paths))

    def checkpoint(self) -> Checkpoint:
        """Return a job that writes the recovery points of all partitions, and flushes the start offsets."""
        partitions = list(self)

        def text_of(directory: LogDirectory) -> Callable[[], bytes]:
            return lambda: run_through(directory.recovery_points_in_steps(partitions))

        online = list(self.directories.online)
        return Checkpoint(
            {each.recovery_points.path: text_of(each) for each in online}, [each.starts for each in online]
        )

    def close(self) -> list[OSError]:
        """Write and flush everything, and mark the shutdown as clean if that succeeded. Blocks."""
        self.commit()
        self._context.transfer.close()
        errors: list[OSError] = []
        for directory in self.directories.online:
            errors += directory.close([each for each in self if self.directories.of(each) is directory])
        self._context.files.clear()
        return errors
