"""Which partitions have a folder in the log directories, before anything is opened.

Called at the start to compare them with the metadata. Changes nothing on the disk.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.log import disk, layout
from broker.log.checkpoints import parse_partition_text


class PartitionFolder(NamedTuple):
    """`topic_id` is 16 bytes; None where partition.metadata is missing or unreadable."""

    topic: str
    partition: int
    topic_id: bytes | None
    path: str


def partition_folders(directories: Iterable[str]) -> list[PartitionFolder]:
    """In the order of the directories. A directory or a folder that cannot be read has none: opening the logs
    takes it offline. A folder with neither partition.metadata nor a segment is no partition.
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
