"""The directories of `log.dirs`: their partition folders and checkpoint files, the modes of these, their
availability, and the placement of new partitions.

Owned by the store. `partition_folders` is called before the logs are opened, to compare the folders with the
metadata. (Kafka: LogManager's directory handling, KIP-112 and KIP-113)
"""

import contextlib
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.config.sections.topics import TopicSettings
from broker.log import checkpoints, disk, layout
from broker.log.checkpoints import OffsetFile, parse_partition_text
from broker.log.disk import MAX_FILE_MODE, MAX_FOLDER_MODE, OpenFile
from broker.log.layout import DELETED_DIRECTORY, STRAY_DIRECTORY, renamed_directory
from broker.log.log_context import LogContext
from broker.log.partition import LogLocation, PartitionLog
from broker.log.producer_state import ProducerStates
from broker.log.recovery import (
    DuplicatePartition,
    Exposure,
    Gap,
    Loaded,
    Missing,
    OfflineDirectory,
    Recovery,
    Repaired,
    TruncatedTail,
    UnreadablePartition,
    load,
)
from broker.log.segment import Segment

NO_TOPIC_ID: Final = bytes(16)
"""Topic id of a partition without partition.metadata; the topic that claims the name sets it."""

MAX_PREFERRED: Final = 10_000
"""Maximum number of nonexistent partitions with a preferred directory.

An administrator may name any partition.
"""

_CHECKPOINTS: Final = (layout.RECOVERY_POINTS, layout.START_OFFSETS, layout.CLEANER_POINTS)
_OURS: Final = frozenset(
    {
        *_CHECKPOINTS,
        *(each + layout.COPY for each in _CHECKPOINTS),
        layout.CLEAN_SHUTDOWN,
        layout.LOCK,
    }
)
_ASIDE: Final = (layout.DELETED_DIRECTORY, layout.FUTURE_DIRECTORY, layout.STRAY_DIRECTORY)

OpenedLogs = dict[tuple[str, int], PartitionLog]


class PartitionFolder(NamedTuple):
    """A partition's folder. `topic_id` has 16 bytes; None if partition.metadata is missing or unreadable."""

    topic: str
    partition: int
    topic_id: bytes | None
    path: str


def partition_folders(directories: Iterable[str]) -> list[PartitionFolder]:
    """Return the partition folders in the order of the directories.

    Skips directories and folders that cannot be read, because opening the logs takes them offline. A folder
    without partition.metadata and without a segment is not a partition.
    """
    found: list[PartitionFolder] = []
    for directory in directories:
        with contextlib.suppress(OSError):
            found += _folders_in(directory)
    return found


def _folders_in(directory: str) -> Iterator[PartitionFolder]:
    for name in disk.names_in(directory):
        key, path = layout.parse_partition(name), os.path.join(directory, name)
        if key is None or not disk.is_directory(path):
            continue
        with contextlib.suppress(OSError):
            content = disk.read_file(os.path.join(path, layout.PARTITION_METADATA))
            if content is not None or any(each.endswith(layout.LOG) for each in disk.names_in(path)):
                yield PartitionFolder(*key, parse_partition_text(content), path)


def tighten(directory: str) -> Exposure:
    """Restrict the modes of the log's files and folders in `directory` to at most 0640 and 0750.

    `disk` creates files with these modes; an earlier version, Kafka or a copy may have left others readable.
    Removes the rights of others, and the group's write right. Does not follow links and ignores files with
    other names. Raises OSError if the directory cannot be read.
    """
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    exposure = Exposure(directory, mode=mode if mode & 0o007 else 0)
    for entry, most in _entries(directory, exposure):
        try:
            seen = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if seen & ~most & 0o777:
                os.chmod(entry.path, seen & most)
                exposure.tightened += 1
        except FileNotFoundError:
            continue
        except OSError as error:
            exposure.error = exposure.error or error
    return exposure


def _entries(directory: str, exposure: Exposure) -> Iterator[tuple["os.DirEntry[str]", int]]:
    """Yield each file and folder of the log with its maximum mode."""
    with os.scandir(directory) as found:
        for entry in found:
            if entry.is_symlink():
                continue
            if entry.is_dir() and _is_partition(entry.name):
                yield entry, MAX_FOLDER_MODE
                try:
                    with os.scandir(entry.path) as files:
                        for file in files:
                            if file.is_file(follow_symlinks=False):
                                yield file, MAX_FILE_MODE
                except OSError as error:
                    exposure.error = exposure.error or error
            elif entry.name in _OURS and entry.is_file():
                yield entry, MAX_FILE_MODE


def _is_partition(name: str) -> bool:
    return layout.parse_partition(name) is not None or name.endswith(_ASIDE)


class LogDirectory:
    """A log directory.

    `count`: partitions in it or being moved to it. `offline`: why the directory is unusable until the next
    start. `futures`: copies that an earlier process started, as (topic, index), directory. `absent`:
    partitions without a folder that had flushed records before the given offset.
    """

    def __init__(self, path: str, context: LogContext[PartitionLog]) -> None:
        self.path = os.path.abspath(path)
        self.count = 0
        self.offline: OSError | None = None
        self.futures: list[tuple[tuple[str, int], str]] = []
        self.absent: dict[tuple[str, int], int] = {}
        self.recovery_points = OffsetFile(self.path, layout.RECOVERY_POINTS)
        self.starts = OffsetFile(self.path, layout.START_OFFSETS)
        self.cleaner_points = OffsetFile(self.path, layout.CLEANER_POINTS)
        self._context = context
        self._lock: OpenFile | None = None

    def open(self, settings: TopicSettings, recovery: Recovery) -> Iterator[PartitionLog]:
        """Create the directory if missing, lock it and yield its partitions. Raises OSError."""
        disk.make_directory(self.path)
        self._lock = disk.lock_directory(self._file(layout.LOCK))
        if exposure := tighten(self.path):
            recovery.exposed.append(exposure)
        for file in (self.recovery_points, self.starts, self.cleaner_points):
            if reason := file.read(is_replaceable=file is not self.starts):
                recovery.repaired.append(Repaired(file.path, reason))
        clean = disk.exists(self._file(layout.CLEAN_SHUTDOWN))
        disk.remove(self._file(layout.CLEAN_SHUTDOWN))
        keys: set[tuple[str, int]] = set()
        for name in disk.names_in(self.path):
            path = self._file(name)
            if name.endswith(layout.DELETED_DIRECTORY):
                disk.remove(path)
            elif (future := layout.parse_future(name)) is not None:
                self.futures.append((future, path))
            elif (key := layout.parse_partition(name)) is not None and disk.is_directory(path):
                keys.add(key)
                yield self._load(key, path, settings, clean, recovery)
        points = self.recovery_points.offsets
        self.absent = {key: end for key, end in points.items() if end > 0 and key not in keys}
        self.starts.keep(keys)
        self.cleaner_points.keep(keys)
        self.recovery_points.keep(keys)
        self.count = len(keys)
        recovery.partitions += len(keys)
        if keys and not clean:
            recovery.unclean.append(self.path)

    def go_offline(self, error: OSError) -> None:
        """Mark the directory as unreadable; its content is unknown."""
        self.offline = error
        self.count = 0
        self.futures.clear()
        self._lock = None

    def placeholder(self, topic: str, topic_id: bytes, index: int, settings: TopicSettings) -> PartitionLog:
        """Return an offline partition that may be stored in this offline directory."""
        assert self.offline is not None
        path = self._file(layout.partition_directory(topic, index))
        place = LogLocation(topic, index, topic_id, path, self.starts)
        return self._offline_partition(place, settings, self.offline)

    def _offline_partition(self, place: LogLocation, settings: TopicSettings, error: OSError) -> PartitionLog:
        nothing = Loaded([Segment(self._context.files, place.directory, 0)], ProducerStates(), 0, 0, 0)
        partition = PartitionLog(place, settings, self._context, nothing)
        partition.go_offline(error)
        return partition

    def _load(
        self, key: tuple[str, int], path: str, settings: TopicSettings, clean: bool, recovery: Recovery
    ) -> PartitionLog:
        topic, index = key
        topic_id = NO_TOPIC_ID
        try:
            metadata = disk.read_file(os.path.join(path, layout.PARTITION_METADATA))
            topic_id = checkpoints.parse_partition_text(metadata) or NO_TOPIC_ID
            loaded = load(
                self._context.files,
                path,
                start_offset=self.starts.offsets.get(key, 0),
                recovery_point=self.recovery_points.offsets.get(key, 0),
                clean=clean and key in self.recovery_points.offsets,
                index_interval=settings.index_interval_bytes,
                start_is_proven=self.starts.is_proven,
            )
        except OSError as error:
            recovery.unreadable.append(UnreadablePartition(topic, index, error))
            place = LogLocation(topic, index, topic_id, path, self.starts)
            return self._offline_partition(place, settings, error)
        recovery.scanned_bytes += loaded.scanned
        recovery.damage += loaded.damage
        recovery.rebuilt += loaded.rebuilt
        recovery.missing += [Missing(topic, index, *gap) for gap in loaded.gaps]
        if loaded.cut:
            recovery.truncated.append(TruncatedTail(topic, index, loaded.end_offset, loaded.cut))
        return PartitionLog(
            LogLocation(topic, index, topic_id, path, self.starts), settings, self._context, loaded
        )

    def create(
        self, topic: str, topic_id: bytes, index: int, settings: TopicSettings, first_offset: int = 0
    ) -> PartitionLog:
        """Create a partition; records before `first_offset` count as missing. Raises OSError."""
        path = self._file(layout.partition_directory(topic, index))
        self.starts.drop((topic, index))
        self.cleaner_points.drop((topic, index))
        self.recovery_points.forget((topic, index))
        disk.make_directory(path)
        disk.replace_file(os.path.join(path, layout.PARTITION_METADATA), checkpoints.partition_text(topic_id))
        disk.replace_file(os.path.join(path, layout.LEADER_EPOCHS), checkpoints.FIRST_EPOCH_TEXT)
        segment = Segment(self._context.files, path, first_offset)
        segment.open(make=True)
        self.count += 1
        gaps = [Gap(0, first_offset)] if first_offset else []
        loaded = Loaded(
            [segment], ProducerStates(), first_offset, first_offset, first_offset, is_new=True, gaps=gaps
        )
        return PartitionLog(
            LogLocation(topic, index, topic_id, path, self.starts), settings, self._context, loaded
        )

    def set_topic_id(self, partition: PartitionLog, topic_id: bytes) -> None:
        """Store the topic id of a partition. Raises OSError."""
        path = os.path.join(partition.directory, layout.PARTITION_METADATA)
        disk.replace_file(path, checkpoints.partition_text(topic_id))
        partition.topic_id = topic_id

    def forget(self, partition: PartitionLog) -> None:
        """Remove a partition that is being deleted. Raises OSError."""
        self.count -= 1
        self.starts.drop((partition.topic, partition.index))
        self.cleaner_points.drop((partition.topic, partition.index))

    def recovery_points_in_steps(self, partitions: Sequence[PartitionLog]) -> Steps[bytes]:
        """Return the text of the recovery points.

        May run in any thread: it reads attributes only, and a recovery point never decreases.
        """
        lines: list[bytes] = []
        for each in partitions:
            if not each.deleted and os.path.dirname(each.directory) == self.path:
                lines.append(checkpoints.offset_line((each.topic, each.index), each.recovery_point))
            yield
        return checkpoints.lines_text(lines)

    def write_recovery_points(self, partitions: Sequence[PartitionLog]) -> Steps[None]:
        """Write the recovery points, so that a removed folder is not missed after a kill.

        Does not flush. Raises OSError.
        """
        text = yield from self.recovery_points_in_steps(partitions)
        checkpoints.write_offsets(self.recovery_points.path, text)

    def close(self, partitions: Sequence[PartitionLog]) -> list[OSError]:
        """Flush the partitions and mark the shutdown as clean; return the errors and never raise.

        Without the clean shutdown mark, the next start checks everything that is in doubt.
        """
        errors = [each.offline for each in partitions if each.offline is not None]
        ended = [each for each in partitions if each.offline is None]
        unflushed = [each for each in ended if each.needs_flush]
        for partition in ended:
            try:
                partition.seal()
            except OSError as error:
                errors.append(error)
        try:
            if unflushed:
                disk.flush_file_system(self.path)
            for partition in unflushed:
                partition.flushed(partition.high_watermark, 0, names_too=True)
            text = run_through(self.recovery_points_in_steps(partitions))
            checkpoints.write_offsets(self.recovery_points.path, text, flushed=True)
            self.starts.flush()
            if not errors:
                marker = self._file(layout.CLEAN_SHUTDOWN)
                disk.replace_file(marker, checkpoints.CLEAN_SHUTDOWN_TEXT, flushed=True)
        except OSError as error:
            errors.append(error)
        self._lock = None
        return errors

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)


class LogDirectories:
    """All log directories, in the order of `log.dirs`. `removable` lists obsolete paths. `is_cordoned` says
    whether the directory of a path gets no new partitions now.
    """

    def __init__(
        self,
        paths: Iterable[str],
        context: LogContext[PartitionLog],
        is_cordoned: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        self._all = [LogDirectory(path, context) for path in paths]
        self._is_cordoned = is_cordoned
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self.removable: list[str] = []

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._all)

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self._all if each.offline is None]

    @property
    def first_offline(self) -> LogDirectory | None:
        """A directory that cannot be read, or None."""
        return next((each for each in self._all if each.offline is not None), None)

    def open(self, settings: TopicSettings, recovery: Recovery) -> OpenedLogs:
        """Open every directory and return all partitions.

        A directory that cannot be read goes offline. Raises OSError when no directory is usable, or another
        broker uses one.
        """
        found: OpenedLogs = {}
        for directory in self._all:
            try:
                partitions = list(directory.open(settings, recovery))
            except BlockingIOError:
                raise
            except OSError as error:
                directory.go_offline(error)
                recovery.offline.append(OfflineDirectory(directory.path, error))
                continue
            for each in partitions:
                key = each.topic, each.index
                found[key] = self._choose_copy(found[key], each, recovery) if key in found else each
        if not self.online:
            raise recovery.offline[0].error
        return found

    def _choose_copy(self, one: PartitionLog, two: PartitionLog, recovery: Recovery) -> PartitionLog:
        """Choose between two copies of a partition left by a move that was interrupted before its last step.

        Renames the other copy, and marks it for removal only if it holds nothing that the chosen one lacks.
        Raises OSError.
        """
        worse, better = sorted((one, two), key=_copy_rank)
        is_spare = (
            worse.offline is None
            and worse.topic_id == better.topic_id
            and worse.high_watermark <= better.high_watermark
        )
        renamed = self.rename_away(worse, DELETED_DIRECTORY if is_spare else STRAY_DIRECTORY)
        if is_spare:
            self.removable.append(renamed)
        recovery.duplicates.append(DuplicatePartition(better.topic, better.index, better.directory, renamed))
        return better

    def named(self, path: str) -> LogDirectory:
        """Return the directory with this path.

        Raises ApiError LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR if it is offline.
        """
        found = next((each for each in self._all if each.path == path), None)
        if found is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if found.offline is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        return found

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Return whether the directory gets no new partitions. (KIP-1066)"""
        return self._is_cordoned(directory.path)

    def of(self, partition: PartitionLog) -> LogDirectory:
        """Return the directory that holds the partition."""
        parent = os.path.dirname(partition.directory)
        return next(each for each in self._all if each.path == parent)

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Set the directory in which a nonexistent partition will be created."""
        self._preferred.pop((topic, index), None)
        self._preferred[topic, index] = directory
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def place(self, topic: str, index: int) -> LogDirectory:
        """Choose a new partition's directory: the preferred one, else the one with the fewest partitions. A
        cordoned one is chosen only if all are, for a partition of a topic that exists.
        """
        chosen = self.next_place(topic, index)
        self._preferred.pop((topic, index), None)
        return chosen

    def next_place(self, topic: str, index: int) -> LogDirectory:
        """Return the directory that `place` would choose now."""
        preferred = self._preferred.get((topic, index))
        return preferred or min(self.online, key=lambda each: (self.is_cordoned(each), each.count))

    def rename_away(self, partition: PartitionLog, suffix: str) -> str:
        """Rename the partition's directory so that no start opens it, and return the new path.

        Raises OSError.
        """
        partition.delete()
        self.of(partition).forget(partition)
        renamed = renamed_directory(partition.directory, uuid.uuid4().hex, suffix)
        disk.rename(partition.directory, renamed)
        return renamed


def _copy_rank(partition: PartitionLog) -> tuple[bool, bool, int]:
    is_damaged = any(segment.verified.damage for segment in partition.segments)
    return partition.offline is None, not is_damaged, partition.high_watermark
