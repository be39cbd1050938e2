"""The small text files beside the segments, in Kafka's formats.

Used by the store and the partitions. Parsing never raises: an unreadable file counts as missing, and recovery
then does more work.
"""

import base64
import binascii
import os
from collections.abc import Collection, Container
from typing import Final, TypeAlias

from broker.log import disk

PartitionKey: TypeAlias = tuple[str, int]
"""(topic, index)."""

CLEAN_SHUTDOWN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


def offset_line(key: PartitionKey, offset: int) -> bytes:
    """Format a line of `recovery-point-offset-checkpoint` or `log-start-offset-checkpoint`."""
    topic, index = key
    return f"{topic} {index} {offset}\n".encode()


def lines_text(lines: Collection[bytes]) -> bytes:
    """Put the version and the count before lines made by `offset_line`."""
    return b"0\n%d\n" % len(lines) + b"".join(lines)


def parse_offsets(content: bytes | None) -> dict[PartitionKey, int]:
    """Return the offsets; none if the count or any line is invalid."""
    offsets: dict[PartitionKey, int] = {}
    try:
        version, count, *lines = (content or b"").decode().splitlines()
        if version != "0" or int(count) != len(lines):
            return {}
        for line in lines:
            topic, index, offset = line.split(" ")
            offsets[topic, int(index)] = int(offset)
    except ValueError:
        return {}
    return offsets


def epochs_text(epochs: list[tuple[int, int]]) -> bytes:
    """Format `leader-epoch-checkpoint`: the start offset of each leader epoch."""
    lines = ["0", str(len(epochs))] + [f"{epoch} {offset}" for epoch, offset in epochs]
    return ("\n".join(lines) + "\n").encode()


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
    """An offset checkpoint in a log directory, with its content in memory.

    Keeps the lines: formatting 10,000 of them at every change would take 4 ms.
    """

    def __init__(self, directory: str, name: str) -> None:
        self.path = os.path.join(directory, name)
        self.offsets: dict[PartitionKey, int] = {}
        self._lines: dict[PartitionKey, bytes] = {}

    def read(self) -> None:
        """Load the file. Raises OSError."""
        self._replace(parse_offsets(disk.read_file(self.path)))

    def keep(self, keys: Container[PartitionKey]) -> None:
        """Remove all other keys. Raises OSError."""
        remaining = {key: offset for key, offset in self.offsets.items() if key in keys}
        if remaining != self.offsets:
            self._replace(remaining)
            self._write()

    def drop(self, key: PartitionKey) -> None:
        """Remove a key. Raises OSError."""
        if self.forget(key):
            self._write()

    def forget(self, key: PartitionKey) -> bool:
        """Remove a key without writing. Return whether it was there."""
        self._lines.pop(key, None)
        return self.offsets.pop(key, None) is not None

    def set(self, key: PartitionKey, offset: int) -> None:
        """Set an offset and save. Raises OSError; the next `set` then saves this one too."""
        self.offsets[key] = offset
        self._lines[key] = offset_line(key, offset)
        self._write()

    def _replace(self, offsets: dict[PartitionKey, int]) -> None:
        self.offsets = offsets
        self._lines = {key: offset_line(key, offset) for key, offset in offsets.items()}

    def _write(self) -> None:
        disk.replace_file(self.path, lines_text(self._lines.values()))
