"""All partitions on this machine's disks (Kafka's LogManager).

Built once by the composition root and asked by the services. Knows directories and partitions; what lies
inside a partition is the partition's business. Belongs to the event loop's thread, but for what says
otherwise.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Final

from broker.config.rooms.log import LogConfig
from broker.config.rooms.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from broker.log import checkpoints, disk
from broker.log.checkpoints import PartitionKey
from broker.log.disk import OpenFiles
from broker.log.layout import DELETED_DIRECTORY, LEADER_EPOCHS, PARTITION_METADATA, partition_directory
from broker.log.partition import FailedAppend, PartitionLog, Shared
from broker.log.segment import Segment
from broker.log.windows import MappedWindows, Sendfile, Transfer

_NONE_FAILED: Final[tuple[FailedAppend, ...]] = ()


class LogStore:
    """`open` before anything else, `close` last."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self._partitions: dict[PartitionKey, PartitionLog] = {}
        transfer: Transfer = (
            MappedWindows(config.mapped_max_bytes) if config.transfer == "mmap" else Sendfile()
        )
        self._shared = Shared(OpenFiles(config.max_open_files), transfer, [], [])

    def open(self) -> None:
        """Raises OSError."""
        for directory in self.config.dirs:
            disk.make_directory(directory)

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def partition(self, topic: str, index: int) -> PartitionLog | None:
        return self._partitions.get((topic, index))

    def create_partition(
        self, topic: str, topic_id: bytes, index: int, settings: TopicSettings
    ) -> PartitionLog:
        """The partition, made where it is not there. A log under this name that belongs to another topic id
        is removed.

        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        known = self._partitions.get((topic, index))
        if known is not None and known.topic_id == topic_id:
            return known
        if known is not None:
            self.delete_partition(topic, index)
        parent = min(self.config.dirs, key=self._partitions_in)
        directory = os.path.join(parent, partition_directory(topic, index))
        try:
            disk.make_directory(directory)
            disk.replace_file(
                os.path.join(directory, PARTITION_METADATA), checkpoints.partition_text(topic_id)
            )
            disk.replace_file(os.path.join(directory, LEADER_EPOCHS), checkpoints.epochs_text([(0, 0)]))
            segment = Segment(self._shared.files, directory, 0)
            segment.open()
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        made = PartitionLog(topic, index, topic_id, directory, settings, self._shared, [segment])
        self._partitions[topic, index] = made
        return made

    def delete_partition(self, topic: str, index: int) -> None:
        """Gone for every caller at once; slices on their way to readers stay readable. Raises ApiError."""
        gone = self._partitions.pop((topic, index), None)
        if gone is None:
            return
        aside = f"{gone.directory}.{uuid.uuid4().hex}{DELETED_DIRECTORY}"
        try:
            disk.rename(gone.directory, aside)
            disk.remove(aside)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def commit(self) -> tuple[FailedAppend, ...]:
        """Writes everything that is staged, each partition with one system call, and says what could not be."""
        dirty, failed = self._shared.dirty, self._shared.failed
        if dirty:
            for partition in dirty:
                partition.commit()
            dirty.clear()
        if not failed:
            return _NONE_FAILED
        told = tuple(failed)
        failed.clear()
        return told

    def close(self) -> None:
        self.commit()
        self._shared.transfer.close()
        self._shared.files.clear()

    def _partitions_in(self, directory: str) -> int:
        return sum(os.path.dirname(each.directory) == directory for each in self._partitions.values())
