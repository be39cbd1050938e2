"""All partitions on this machine's disks (Kafka's LogManager).

Built once by the composition root and asked by the services. Knows directories and partitions; what lies
inside a partition is the partition's business.

`open` and `close` block; the others belong to the event loop's thread. What takes long they hand out as
chores, which run in other threads.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from broker.config.sections.log import LogConfig
from broker.config.sections.topics import TopicSettings
from broker.errors import ApiError
from broker.log.background_jobs import BackgroundJob, Checkpoint, Flush, Removal
from broker.log.clock_steps import ClockSteps
from broker.log.directories import Found, LogDirectories
from broker.log.directory import NO_TOPIC_ID, LogDirectory
from broker.log.disk import NO_DESCRIPTORS, OpenFiles
from broker.log.layout import DELETED_DIRECTORY, STRAY_DIRECTORY
from broker.log.log_context import LogContext
from broker.log.move import Move, Step
from broker.log.moves import Moves
from broker.log.partition import PartitionLog
from broker.log.report import Missing, Recovery
from broker.log.segmented import SegmentedLog, storage_error
from broker.log.staged import FailedAppend
from broker.log.windows import MappedWindows, Sendfile, Transfer

_NONE_FAILED: Final[tuple[FailedAppend, ...]] = ()


class LogStore:
    """`open` before anything else, `close` last."""

    def __init__(self, config: LogConfig, descriptors: int | None = None) -> None:
        """`descriptors`: as many as the process may have (RLIMIT_NOFILE); at most half of them are for
        segments, whatever log.max.open.files says.
        """
        self.config = config
        transfer: Transfer = (
            MappedWindows(config.mapped_max_bytes) if config.transfer == "mmap" else Sendfile()
        )
        most = config.max_open_files if descriptors is None else min(config.max_open_files, descriptors // 2)
        self._shared = LogContext(OpenFiles(most), transfer)
        self.directories = LogDirectories(config.dirs, self._shared)
        self._partitions: Found = {}
        self._removable: list[tuple[int, list[str]]] = []
        self._clock_steps = ClockSteps()
        self.moves = Moves(lambda paths, due_ms: self._removable.append((due_ms, paths)))

    def open(self, defaults: TopicSettings | None = None) -> Recovery:
        """Finds every partition; `defaults` hold for each until `create_partition` says what its topic has.

        Blocks for as long as recovery takes. Raises OSError when no directory can be used, or another broker
        uses one; a directory or a partition that cannot be read is offline instead.
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
        """producer.id.expiration.ms has changed; the next round of `retention` goes by it. The rest is
        fixed.
        """
        self.config = config

    def on_offline(self, tell: Callable[[SegmentedLog], None]) -> None:
        """`tell` is called whenever a partition goes offline from now on."""
        self._shared.went_offline = tell

    @property
    def gapped(self) -> Collection[SegmentedLog]:
        """The partitions that lack records that they had."""
        return self._shared.gapped.keys()

    @property
    def offline(self) -> Collection[SegmentedLog]:
        """The partitions that cannot be used until the next start."""
        return self._shared.offline.keys()

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def partition(self, topic: str, index: int) -> PartitionLog | None:
        return self._partitions.get((topic, index))

    def create_partition(
        self, topic: str, topic_id: bytes, index: int, settings: TopicSettings
    ) -> PartitionLog:
        """The partition with these settings, made where it is not there. A log under this name that belongs
        to another topic id is removed first.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        try:
            known = self._open_or_make(topic, topic_id, index, settings)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise storage_error(error) from error
            self._shared.files.shrink(error)
            try:
                known = self._open_or_make(topic, topic_id, index, settings)
            except OSError as again:
                raise storage_error(again) from again
        known.adopt(settings)
        self._partitions[topic, index] = known
        return known

    def _open_or_make(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> PartitionLog:
        """Raises OSError."""
        known = self._known(topic, topic_id, index)
        return known or self.directories.place(topic, index).create(topic, topic_id, index, settings)

    @property
    def most_open_files(self) -> int:
        """Segment and index files that may be held open."""
        return self._shared.files.capacity

    def _known(self, topic: str, topic_id: bytes, index: int) -> PartitionLog | None:
        known = self._partitions.get((topic, index))
        if known is None or known.topic_id == topic_id or known.offline is not None:
            return known
        if known.topic_id == NO_TOPIC_ID:
            self.directories.of(known).name(known, topic_id)
            return known
        # Its topic may be gone, or its partition.metadata damaged: nobody's records are deleted for that.
        self._take_away(known, STRAY_DIRECTORY)
        return None

    def give_up(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> None:
        """A partition that exists, and is in no directory that can be read: it is offline where it may lie in
        one that cannot. Made anew it would begin at offset 0.
        """
        lost = self.directories.lost
        if lost is not None and (topic, index) not in self._partitions:
            self._partitions[topic, index] = lost.placeholder(topic, topic_id, index, settings)

    def restore_absent(
        self, topic: str, topic_id: bytes, count: int, settings: TopicSettings
    ) -> list[Missing]:
        """Makes those of an old topic's partitions anew whose folders are gone though they had flushed
        records: they go on where those ended, so that no offset is given out twice. Raises ApiError
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

    def forget_deleted(self) -> None:
        """Partitions were deleted: the recovery points forget them, so that a topic of the same name is not
        taken for one that has lost its folders. One file for each directory, whatever was deleted.
        """
        for directory in self.directories.online:
            with contextlib.suppress(OSError):
                directory.write_recovery_points(self)

    def move(self, partition: PartitionLog, target: LogDirectory) -> None:
        """Begins to move it; ends a move, if it lies there already. Raises ApiError
        INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR.
        """
        if partition.offline is not None or partition.deleted:
            raise partition.refusal()
        try:
            self.moves.request(partition, self.directories.of(partition), target)
        except OSError as error:
            raise storage_error(error) from error

    def next_step_of(self, move: Move, most: int) -> Step | None:
        """As `Moves.next_step`."""
        return self.moves.next_step(move, most, self.directories.of(move.partition))

    def delete_partition(self, topic: str, index: int) -> None:
        """Gone for every caller at once; slices on their way to readers stay readable, and the files go with
        the next `retention`. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        gone = self._partitions.get((topic, index))
        if gone is None:
            return
        if self.directories.of(gone).offline is not None:
            del self._partitions[topic, index]
            gone.delete()
            return
        try:
            self._removable.append((0, [self._take_away(gone, DELETED_DIRECTORY)]))
        except OSError as error:
            raise storage_error(error) from error

    def _take_away(self, partition: PartitionLog, suffix: str) -> str:
        """Its directory under another name, at which no start will look. Raises OSError."""
        del self._partitions[partition.topic, partition.index]
        self.moves.forget(partition)
        return self.directories.put_aside(partition, suffix)

    def commit(self) -> Sequence[FailedAppend]:
        """Writes everything that is staged, each partition with one system call, and says what could not
        be.
        """
        context = self._shared
        dirty, failed = context.dirty, context.failed
        context.inspected = 0
        if dirty:
            for partition in dirty:
                partition.commit()
            dirty.clear()
        if not failed:
            return _NONE_FAILED
        told = tuple(failed)
        failed.clear()
        return told

    @property
    def has_overdue_flushes(self) -> bool:
        """Whether answers to what was committed have to wait for `overdue_flushes`."""
        return bool(self._shared.overdue)

    def overdue_flushes(self) -> list[Flush]:
        """Of the partitions that have at least flush.messages records in memory only."""
        overdue = list(self._shared.overdue)
        self._shared.overdue.clear()
        return [partition.flush(self._shared.unflushed.get(partition, 0)) for partition in overdue]

    def due_flushes(self, now_wall_ms: int) -> list[Flush]:
        """Of the partitions whose oldest unflushed record is at least flush.ms old, and of closed
        segments.
        """
        context = self._shared
        due = [
            partition.flush(now_wall_ms)
            for partition, since_ms in context.unflushed.items()
            if now_wall_ms - since_ms >= partition.settings.flush_ms
        ]
        due += [partition.flush(now_wall_ms, sealed_only=True) for partition in context.rolled]
        context.rolled.clear()
        return due

    def next_flush_ms(self) -> int | None:
        """The wall clock time from which on `due_flushes` has something; None while nothing waits."""
        if self._shared.rolled:
            return 0
        waiting = self._shared.unflushed.items()
        return min((since_ms + partition.settings.flush_ms for partition, since_ms in waiting), default=None)

    def expire_producers(self, now_wall_ms: int) -> None:
        """Forgets the producers that were not seen for `producer.id.expiration.ms`."""
        before_ms = now_wall_ms - self.config.producer_id_expiration_ms
        for partition in self._partitions.values():
            if partition.adopted:
                partition.producers.expire(before_ms)

    def note_clock(self, now_wall_ms: int, now_ms: int) -> None:
        """What steps of the clock are measured from, before the first round of retention."""
        self._clock_steps.is_believed(now_wall_ms, now_ms, 0)

    def retention(self, now_wall_ms: int, now_ms: int | None = None) -> list[BackgroundJob]:
        """Lets go of what no topic keeps any longer. The chores remove files whose delay is over; call again
        after the shortest file.delete.delay.ms.

        `now_ms` is monotonic: after a large step forward of the wall clock nothing more is let go for
        log.retention.check.interval.ms. Without it the wall clock is believed.
        """
        self._shared.files.recover()
        wait_ms = self.config.retention_check_interval_ms
        is_believed = now_ms is None or self._clock_steps.is_believed(now_wall_ms, now_ms, wait_ms)
        for partition in self._partitions.values():
            if not partition.adopted or not is_believed:
                continue
            try:
                paths = partition.retire(now_wall_ms)
            except ApiError:
                # The disk has no room for a new segment, or cannot be read: the next round tries again.
                continue
            if paths:
                self._removable.append((now_wall_ms + partition.settings.file_delete_delay_ms, paths))
        due = [paths for due_ms, paths in self._removable if due_ms <= now_wall_ms]
        self._removable = [each for each in self._removable if each[0] > now_wall_ms]
        return [Removal(paths) for paths in due]

    def checkpoint(self) -> Checkpoint:
        """Writes down up to where every partition is on the disk, so that recovery starts there."""
        return Checkpoint(
            {
                directory.recovery_points.path: directory.recovery_points_text(self)
                for directory in self.directories.online
            }
        )

    def close(self) -> list[OSError]:
        """Writes and flushes everything, and marks the end as clean where that succeeded. Blocks."""
        self.commit()
        self._shared.transfer.close()
        errors: list[OSError] = []
        for directory in self.directories.online:
            errors += directory.close([each for each in self if self.directories.of(each) is directory])
        self._shared.files.clear()
        return errors
