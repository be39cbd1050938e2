"""The directories of `log.dirs` together: which can be used, what lies in them, where a new partition goes.

Owned by the store. (Kafka: the bookkeeping of LogManager that KIP-112 and KIP-113 brought)
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
from broker.log.report import Lost, Recovery, Twice
from broker.log.segmented import SegmentedLog

MOST_PREFERRED: Final = 10_000
"""Partitions that do not exist, of which a directory is remembered; an administrator may name any."""

Found = dict[tuple[str, int], PartitionLog]


class LogDirectories:
    """In the order of `log.dirs`. `removable` are paths that nobody wants any more."""

    def __init__(self, paths: Iterable[str], context: LogContext) -> None:
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
        """One that cannot be read, if there is any."""
        return next((each for each in self._all if each.offline is not None), None)

    def open(self, settings: TopicSettings, recovery: Recovery) -> Found:
        """Every partition. Raises OSError when no directory can be used, or another broker uses one; one that
        cannot be read is offline instead.
        """
        found: Found = {}
        for directory in self._all:
            try:
                partitions = list(directory.open(settings, recovery))
            except BlockingIOError:
                raise
            except OSError as error:
                directory.go_offline(error)
                recovery.lost.append(Lost(directory.path, error))
                continue
            for each in partitions:
                key = each.topic, each.index
                found[key] = self._better(found[key], each, recovery) if key in found else each
        if not self.online:
            raise recovery.lost[0].error
        return found

    def _better(self, one: PartitionLog, two: PartitionLog, recovery: Recovery) -> PartitionLog:
        """Of the two places where a partition lies, because a move was cut off between its last two steps.
        The other is put aside, and removed only if it has nothing that this one has not. Raises OSError.
        """
        worse, better = sorted((one, two), key=_worth)
        is_spare = (
            worse.offline is None
            and worse.topic_id == better.topic_id
            and worse.high_watermark <= better.high_watermark
        )
        aside = self.put_aside(worse, DELETED_DIRECTORY if is_spare else STRAY_DIRECTORY)
        if is_spare:
            self.removable.append(aside)
        recovery.twice.append(Twice(better.topic, better.index, better.directory, aside))
        return better

    def named(self, path: str) -> LogDirectory:
        """Raises ApiError LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR for one that is offline."""
        found = next((each for each in self._all if each.path == path), None)
        if found is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
        if found.offline is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        return found

    def of(self, partition: SegmentedLog) -> LogDirectory:
        """The one that it lies in."""
        parent = os.path.dirname(partition.directory)
        return next(each for each in self._all if each.path == parent)

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Where a partition is to be made that does not exist yet."""
        self._preferred.pop((topic, index), None)
        self._preferred[topic, index] = directory
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def place(self, topic: str, index: int) -> LogDirectory:
        """For a new partition: the one that was asked for, or else that with the fewest."""
        preferred = self._preferred.pop((topic, index), None)
        return preferred or min(self.online, key=lambda each: each.count)

    def put_aside(self, partition: PartitionLog, suffix: str) -> str:
        """Its directory under another name, at which no start will look. Raises OSError."""
        partition.delete()
        self.of(partition).forget(partition)
        aside = aside_directory(partition.directory, uuid.uuid4().hex, suffix)
        disk.rename(partition.directory, aside)
        return aside


def _worth(partition: PartitionLog) -> tuple[bool, bool, int]:
    is_damaged = any(segment.verified.damage for segment in partition.segments)
    return partition.offline is None, not is_damaged, partition.high_watermark
