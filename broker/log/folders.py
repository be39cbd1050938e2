"""Lists the partition folders in the log directories without opening them.

Called at startup to compare the folders with the metadata. Changes nothing on disk.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.log import disk, layout
from broker.log.checkpoints import parse_partition_text


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
