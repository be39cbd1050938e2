"""Checks whether SQLite can read a whole write-ahead log. SQLite does not report this: it silently skips all
frames after the first bad checksum.

MetadataStore calls it at start. Depends only on the file format (https://sqlite.org/fileformat2.html, section
4).
"""

import struct
from collections import Counter
from typing import Final

_HEADER: Final = struct.Struct(">IIII8sII")
_FRAME: Final = struct.Struct(">II8sII")
_MAGIC: Final = 0x377F0682
"""If the lowest bit is also set, checksums are over big-endian words."""

_USUAL_PAGE: Final = 4_096


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
    words = ">" if magic & 1 else "<"
    chain = _checksum(content[: _HEADER.size - 8], (0, 0), words)
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
            chain = _checksum(content[start : start + 8] + page, chain, words)
            is_good = frame_salts == salts and chain == tuple(frame_sums)
        if not is_good and frame_salts == salts and size_after_commit:
            unread += 1
    return unread


def _checksum(data: bytes, before: tuple[int, int], words: str) -> tuple[int, int]:
    one, two = before
    for first, second in struct.iter_unpack(words + "II", data):
        one = (one + first + two) & 0xFFFF_FFFF
        two = (two + second + one) & 0xFFFF_FFFF
    return one, two
