"""The small text files beside the segments, in Kafka's formats.

Used by the store and the partitions. Kafka's offset checkpoints have no checksum, so each has a copy with one
beside it, which is written first: where the two differ, the copy is right. Earlier versions wrote no copies;
their files are accepted and get one.
"""

import base64
import binascii
import os
from collections.abc import Collection, Container
from errno import EINVAL
from typing import Final, TypeAlias

from crc32c import crc32c

from broker.log import disk
from broker.log.layout import COPY

PartitionKey: TypeAlias = tuple[str, int]
"""(topic, index)."""

_CRC_NAME: Final = b"crc32c "

_EVERY_LOG: Final = "the file cannot be read, so every log was checked"
_DELETED_AGAIN: Final = "the file is empty, so records that were deleted by DeleteRecords can be read again"
_NOT_READABLE: Final = (
    "the checkpoint and its copy cannot be read: restore one of them, or remove both; without them, records "
    "that were deleted by DeleteRecords can be read again"
)

FIRST_EPOCH_TEXT: Final = b"0\n1\n0 0\n"
"""The content of `leader-epoch-checkpoint`: leader epoch 0 begins at offset 0."""

CLEAN_SHUTDOWN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'


def offset_line(key: PartitionKey, offset: int) -> bytes:
    """Format a line of `recovery-point-offset-checkpoint` or `log-start-offset-checkpoint`."""
    topic, index = key
    return f"{topic} {index} {offset}\n".encode()


def lines_text(lines: Collection[bytes]) -> bytes:
    """Put the version and the count before lines made by `offset_line`."""
    return b"0\n%d\n" % len(lines) + b"".join(lines)


def parse_offsets(content: bytes) -> dict[PartitionKey, int] | None:
    """Return the offsets; None if the count or any line is invalid."""
    offsets: dict[PartitionKey, int] = {}
    try:
        version, count, *lines = content.decode().splitlines()
        if version != "0" or int(count) != len(lines):
            return None
        for line in lines:
            topic, index, offset = line.split(" ")
            offsets[topic, int(index)] = int(offset)
    except ValueError:
        return None
    return offsets


def write_offsets(path: str, content: bytes, *, flushed: bool = False) -> None:
    """Replace an offset checkpoint and its copy. Raises OSError."""
    disk.replace_file(path + COPY, content + _CRC_NAME + b"%d\n" % crc32c(content), flushed=flushed)
    disk.replace_file(path, content, flushed=flushed)


def content_of_copy(copy: bytes) -> bytes | None:
    """Return the content of a checkpoint from its copy; None if the copy is damaged."""
    content, separator, crc = copy.rpartition(_CRC_NAME)
    return content if separator and crc == b"%d\n" % crc32c(content) else None


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

    `is_proven`: the offsets have a checksum. `is_flushed`: the file survives a power loss. Keeps the lines:
    formatting 10,000 of them at every change would take 4 ms.
    """

    def __init__(self, directory: str, name: str) -> None:
        self.path = os.path.join(directory, name)
        self.offsets: dict[PartitionKey, int] = {}
        self.is_proven = self.is_flushed = True
        self._is_stale = False
        self._lines: dict[PartitionKey, bytes] = {}

    def read(self, *, is_replaceable: bool) -> str | None:
        """Load the file, and return what was wrong with it or its copy, or None.

        Raises OSError, also if both are damaged, unless the file is replaceable: recovery does more work
        without it. `keep` writes them anew.
        """
        content, copy = disk.read_file(self.path), disk.read_file(self.path + COPY)
        proven = None if copy is None else content_of_copy(copy)
        self.is_proven = proven is not None
        self._is_stale = proven is None or proven != content
        if proven is not None:
            self._replace(parse_offsets(proven) or {})
            if content is None:
                return "the file is missing; its copy was used"
            return "the file differs from its copy, which was used" if self._is_stale else None
        if content is None and copy is None:
            self._is_stale = False
            self._replace({})
            return None
        offsets = None if content is None else parse_offsets(content)
        # A power failure can leave empty files, because DeleteRecords does not wait for the disk.
        if offsets is None and not is_replaceable and (content or copy):
            raise OSError(EINVAL, _NOT_READABLE, self.path)
        self._replace(offsets or {})
        if offsets is None:
            return _EVERY_LOG if is_replaceable else _DELETED_AGAIN
        return None if copy is None else "the copy of the file is damaged"

    def keep(self, keys: Container[PartitionKey]) -> None:
        """Remove all other keys. Raises OSError."""
        remaining = {key: offset for key, offset in self.offsets.items() if key in keys}
        if remaining != self.offsets or self._is_stale:
            self._replace(remaining)
            self._write()
            self._is_stale = False

    def drop(self, key: PartitionKey) -> None:
        """Remove a key. Raises OSError."""
        if self.forget(key):
            self._write()

    def forget(self, key: PartitionKey) -> bool:
        """Remove a key without writing. Return whether it was there."""
        self._lines.pop(key, None)
        return self.offsets.pop(key, None) is not None

    def set(self, key: PartitionKey, offset: int) -> None:
        """Set an offset and save, so that it survives the process; `flush` follows.

        Raises OSError; the next `set` then saves this one too.
        """
        self.offsets[key] = offset
        self._lines[key] = offset_line(key, offset)
        self._write()

    def flush(self) -> None:
        """Flush the file and its copy if they were replaced since the last flush. Blocks; a change meanwhile
        stays for the next flush. Raises OSError, and the next flush tries again.
        """
        if self.is_flushed:
            return
        self.is_flushed = True
        try:
            disk.flush_file(self.path + COPY)
            disk.flush_file(self.path)
            disk.flush_directory(os.path.dirname(self.path))
        except OSError:
            self.is_flushed = False
            raise

    def _replace(self, offsets: dict[PartitionKey, int]) -> None:
        self.offsets = offsets
        self._lines = {key: offset_line(key, offset) for key, offset in offsets.items()}

    def _write(self) -> None:
        self.is_flushed = False
        write_offsets(self.path, lines_text(self._lines.values()))
