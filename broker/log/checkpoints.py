"""The small text files beside the segments, in Kafka's formats.

Used by the store and the partitions. Parsing never raises: an unreadable file counts as missing, and recovery
then does more work.
"""

import base64
import binascii
import os
from collections.abc import Container
from typing import Final, TypeAlias

from broker.log import disk

PartitionKey: TypeAlias = tuple[str, int]
"""(topic, index)."""

CLEAN_SHUTDOWN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


def offsets_text(offsets: dict[PartitionKey, int]) -> bytes:
    """Format `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint`.

    The lines are the version, the count, and one line per partition.
    """
    lines = ["0", str(len(offsets))]
    lines += [f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def parse_offsets(content: bytes | None) -> dict[PartitionKey, int]:
    offsets: dict[PartitionKey, int] = {}
    for fields in _entries(content, 3):
        offsets[fields[0], int(fields[1])] = int(fields[2])
    return offsets


def epochs_text(epochs: list[tuple[int, int]]) -> bytes:
    """Format `leader-epoch-checkpoint`: the start offset of each leader epoch."""
    lines = ["0", str(len(epochs))] + [f"{epoch} {offset}" for epoch, offset in epochs]
    return ("\n".join(lines) + "\n").encode()


def parse_epochs(content: bytes | None) -> list[tuple[int, int]]:
    return [(int(fields[0]), int(fields[1])) for fields in _entries(content, 2)]


def _entries(content: bytes | None, width: int) -> list[list[str]]:
    """Return the lines after the header; nothing if the header's count or any line is invalid."""
    try:
        version, count, *lines = (content or b"").decode().splitlines()
        entries = [line.split(" ") for line in lines]
        good = version == "0" and int(count) == len(entries)
        good = good and all(
            len(fields) == width and [int(field) for field in fields[-2:]] for fields in entries
        )
    except ValueError:
        return []
    return entries if good else []


def partition_text(topic_id: bytes) -> bytes:
    """Format `partition.metadata`; a topic id is 16 bytes, written as Kafka's Uuid.toString."""
    return b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(topic_id).rstrip(b"=")


def parse_partition_text(content: bytes | None) -> bytes | None:
    """Return the topic id."""
    for line in (content or b"").splitlines():
        name, _, value = line.partition(b": ")
        if name == b"topic_id":
            try:
                topic_id = base64.b64decode(value.strip() + b"==", altchars=b"-_", validate=True)
            except binascii.Error:
                return None
            return topic_id if len(topic_id) == 16 else None
    return None


class OffsetFile:
    """An offset checkpoint in a log directory, with its content in memory."""

    def __init__(self, directory: str, name: str) -> None:
        self.path = os.path.join(directory, name)
        self.offsets: dict[PartitionKey, int] = {}

    def read(self) -> None:
        """Load the file. Raises OSError."""
        self.offsets = parse_offsets(disk.read_file(self.path))

    def keep(self, keys: Container[PartitionKey]) -> None:
        """Remove all other keys. Raises OSError."""
        remaining = {key: offset for key, offset in self.offsets.items() if key in keys}
        if remaining != self.offsets:
            self.offsets = remaining
            disk.replace_file(self.path, offsets_text(remaining))

    def drop(self, key: PartitionKey) -> None:
        """Remove a key. Raises OSError."""
        if self.offsets.pop(key, None) is not None:
            disk.replace_file(self.path, offsets_text(self.offsets))

    def set(self, key: PartitionKey, offset: int) -> None:
        """Set an offset and save. Raises OSError; the next `set` then saves this one too."""
        self.offsets[key] = offset
        disk.replace_file(self.path, offsets_text(self.offsets))
