"""Checks the write-ahead log of the metadata file before SQLite opens it.

SQLite does not report a log that it cannot read completely: it silently skips all frames after the first bad
checksum. MetadataStore calls this at start. `unread_commits` depends only on the file format
(https://sqlite.org/fileformat2.html, section 4).
"""

import os
import struct
from collections import Counter
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">IIII8sII")
_FRAME: Final = struct.Struct(">II8sII")
_MAGIC: Final = 0x377F0682
"""If the lowest bit is also set, checksums are over big-endian byte_order."""

_USUAL_PAGE: Final = 4_096


REBUILD: Final = "--rebuild-metadata"
RECOVERY_HINT: Final = (
    f"Restore a backup of the file and of its -wal, or start once with {REBUILD}, which adopts the "
    "existing topic folders (docs/operations.md, Recovering metadata), or start with a new directory"
)


class MetadataUnusable(OSError):  # noqa: N818 - describes the file
    """The file has another format, is damaged, or is locked by another broker. Stops the start."""


def wal_of(path: Path) -> Path:
    """Return the path of the write-ahead log beside the metadata file."""
    return path.with_name(path.name + "-wal")


def check_wal(path: Path) -> None:
    """Check for a log without its main file, and for a damaged log. Raises MetadataUnusable, OSError.

    Must precede SQLite: on close, SQLite deletes the log of an empty or damaged file.
    """
    log = wal_of(path)
    content = log.read_bytes() if log.exists() else b""
    if content and not (path.exists() and path.stat().st_size):
        raise MetadataUnusable(
            f"{path} is missing or empty, but {log.name} beside it is not. {RECOVERY_HINT}"
        )
    unread = unread_commits(content)
    if unread > 1:
        raise MetadataUnusable(f"{log} is damaged: {unread} changes in it cannot be read. {RECOVERY_HINT}")


def keep_damaged_wal(path: Path) -> None:
    """Copy the log before the checkpoint empties it, unreadable frames included. Raises OSError."""
    log = wal_of(path)
    content = log.read_bytes() if log.exists() else b""
    if not content or (path.exists() and path.stat().st_size and not unread_commits(content)):
        return
    copy = log.with_name(log.name + ".damaged")
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT, 0o600))
    copy.write_bytes(content)


def unread_commits(content: bytes) -> int:
    """Return the number of transactions in the current log that begin or end after the first unreadable
    frame.

    One can be the unacknowledged transaction that a power failure interrupted. Two or more are damage,
    because each transaction is on disk before the next one is written. Frames of an earlier log, which follow
    the current one and have other salts, do not count.
    """
    if len(content) <= _HEADER.size:
        return 0
    magic, _, page_bytes, _, salts, *sums = _HEADER.unpack_from(content)
    byte_order = ">" if magic & 1 else "<"
    chain = _checksum(content[: _HEADER.size - 8], (0, 0), byte_order)
    is_good = magic & ~1 == _MAGIC and chain == tuple(sums)
    if not is_good:
        page_bytes = _USUAL_PAGE
    step = _FRAME.size + page_bytes
    starts = range(_HEADER.size, len(content) - step + 1, step)
    frames = [_FRAME.unpack_from(content, start) for start in starts]
    if not is_good:
        salts = Counter(frame[2] for frame in frames).most_common(1)[0][0] if frames else b""
    unread = 0
    for start, (_, size_after_commit, frame_salts, *frame_sums) in zip(starts, frames, strict=True):
        if is_good:
            page = content[start + _FRAME.size : start + step]
            chain = _checksum(content[start : start + 8] + page, chain, byte_order)
            is_good = frame_salts == salts and chain == tuple(frame_sums)
        if not is_good and frame_salts == salts and size_after_commit:
            unread += 1
    return unread


def _checksum(data: bytes, before: tuple[int, int], byte_order: str) -> tuple[int, int]:
    one, two = before
    for first, second in struct.iter_unpack(byte_order + "II", data):
        one = (one + first + two) & 0xFFFF_FFFF
        two = (two + second + one) & 0xFFFF_FFFF
    return one, two
