"""The directories of `log.dirs`: their availability, their partitions, and placement of new partitions.

Owned by the store. (Kafka: LogManager's directory handling, KIP-112 and KIP-113)
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

from broker.config.sections.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from broker.log import disk
from broker.log.directory import LogDirectory
from broker.log.layout import DELETED_DIRECTORY, STRAY_DIRECTORY, aside_directory
from broker.log.log_context import LogContext
from broker.log.partition import PartitionLog
from broker.log.report import DuplicatePartition, OfflineDirectory, Recovery

MAX_PREFERRED: Final = 10_000
"""Maximum number of nonexistent partitions with a preferred directory.

An administrator may name any partition.
"""

Found = dict[tuple[str, int], PartitionLog]


class LogDirectories:
    """All log directories, in the order of `log.dirs`. `removable` lists obsolete paths."""

    def __init__(self, paths: Iterable[str], context: LogContext[PartitionLog]) -> None:
        self._all = [LogDirectory(path, context) for path in paths]
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self.removable: list[str] = []

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._all)

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self._all if each.offline is None]

    @property
    def lost(self) -> LogDirectory | None:
        """A directory that cannot be read, or None."""
        return next((each for each in self._all if each.offline is not None), None)

    def open(self, settings: TopicSettings, recovery: Recovery) -> Found:
        """Open every directory and return all partitions.

        A directory that cannot be read goes offline. Raises OSError when no directory is usable, or another
        broker uses one.
        """
        found: Found = {}
        for directory in self._all:
            try:
                partitions = list(directory.open(settings, recovery))
            except BlockingIOError:
                raise
            except OSError as error:
                directory.go_offline(error)
                recovery.lost.append(OfflineDirectory(directory.path, error))
                continue
            for each in partitions:
                key = each.topic, each.index
                found[key] = self._choose_copy(found[key], each, recovery) if key in found else each
        if not self.online:
            raise recovery.lost[0].error
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
        aside = self.put_aside(worse, DELETED_DIRECTORY if is_spare else STRAY_DIRECTORY)
        if is_spare:
            self.removable.append(aside)
        recovery.twice.append(DuplicatePartition(better.topic, better.index, better.directory, aside))
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
        """Choose a new partition's directory: the preferred one, else the one with the fewest partitions."""
        preferred = self._preferred.pop((topic, index), None)
        return preferred or min(self.online, key=lambda each: each.count)

    def put_aside(self, partition: PartitionLog, suffix: str) -> str:
        """Rename the partition's directory so that no start opens it, and return the new path.

        Raises OSError.
        """
        partition.delete()
        self.of(partition).forget(partition)
        aside = aside_directory(partition.directory, uuid.uuid4().hex, suffix)
        disk.rename(partition.directory, aside)
        return aside


def _copy_rank(partition: PartitionLog) -> tuple[bool, bool, int]:
    is_damaged = any(segment.verified.damage for segment in partition.segments)
    return partition.offline is None, not is_damaged, partition.high_watermark
