"""Finds out what a partition's directory holds when the broker starts (Kafka's LogLoader).

Called by the store for each directory, before anybody may append or read. After a clean end only the tail is
looked at; otherwise every segment from the recovery point on is read and checked batch by batch, its indexes
are made again, and what was half written at the end is cut off.

Bad bytes with good batches behind them are kept where they are, reported, and never lent to a reader: cutting
there, as Kafka does, would lose acknowledged records and give their offsets out again.
"""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.log import disk
from broker.log.disk import OpenFiles
from broker.log.layout import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    parse_segment_file,
    segment_file,
)
from broker.log.producers import Producers, TakenBatch, sequence_after
from broker.log.scan import Damage, scan
from broker.log.segment import Segment
from broker.log.snapshot import parse_snapshot
from broker.records.header import HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, header_at

_MOST_BELIEVED: Final = 1 << 62
"""A recovery point beyond it is a damaged checkpoint."""

_LEFT_OVER: Final = (DELETED, ".tmp", ".swap", ".cleaned")


class DamagedStretch(NamedTuple):
    """Bytes of a segment's file that are no good batches."""

    path: str
    start: int
    end: int


class Gap(NamedTuple):
    """Offsets from `start` to before `end` that were given out and whose bytes are not there."""

    start: int
    end: int


class Loaded(NamedTuple):
    """What a partition is made from. `segments` has at least one; `cut` counts the bytes that were cut off at
    the end, `scanned` those that were checked. `snapshot_at`: the producers as of this offset are on the
    disk; -1 for none. `gaps` are sorted, and behind the log start.
    """

    segments: list[Segment]
    producers: Producers
    log_start_offset: int
    end_offset: int
    recovery_point: int
    snapshot_at: int = -1
    is_new: bool = False
    damage: Sequence[DamagedStretch] = ()
    cut: int = 0
    scanned: int = 0
    gaps: Sequence[Gap] = ()


def load(
    files: OpenFiles,
    directory: str,
    *,
    start_offset: int,
    recovery_point: int,
    clean: bool,
    index_interval: int,
) -> Loaded:
    """`recovery_point`: everything before it has been flushed; after a `clean` end it is the end of the log.

    Raises OSError.
    """
    bases, snapshots = _list(directory)
    if not bases:
        segment = Segment(files, directory, start_offset)
        segment.open(make=True)
        return Loaded([segment], Producers(), start_offset, start_offset, start_offset, is_new=True)
    start_offset = max(start_offset, bases[0])
    segments = [
        Segment(
            files,
            directory,
            base,
            size=disk.size_of(os.path.join(directory, segment_file(base, LOG))),
            ceiling=following,
        )
        for base, following in zip(bases, [*bases[1:], recovery_point if clean else None], strict=True)
    ]
    if clean and _ends_at(segments[-1], recovery_point):
        producers, snapshot_at = _restore(directory, snapshots, recovery_point)
        gaps = _gaps(segments, [_end_of(each) for each in segments[:-1]], start_offset)
        return Loaded(
            segments, producers, start_offset, recovery_point, recovery_point, snapshot_at, gaps=gaps
        )
    producers, replayed_from = _restore(directory, snapshots, bases[-1])
    first = min(_holding(bases, recovery_point), len(bases) - 1)
    damage: list[DamagedStretch] = []
    scanned = cut = 0
    for segment in segments[_holding(bases, replayed_from) : first]:
        for found in segment.batches():
            _replay(producers, found.header, replayed_from, disk.modified_ms(segment.path))
    end_offset = bases[first]
    ends = [_end_of(each) for each in segments[:first]]
    for segment, following in zip(segments[first:], [*bases[first + 1 :], None], strict=True):
        size = segment.size
        scanned += size
        start = max(end_offset, segment.base_offset)
        end_offset = _recover(segment, producers, replayed_from, start, following, index_interval)
        if segment is segments[-1]:
            cut = _cut_tail(segment)
        else:
            segment.seal()
        damage += [DamagedStretch(segment.path, *stretch) for stretch in segment.verified.damage]
        ends.append(_end_of_checked(segment, size, end_offset))
    is_short = end_offset < recovery_point < _MOST_BELIEVED
    if is_short:
        # Flushed records are gone from the end. Their offsets are not given out a second time.
        segments.append(Segment(files, directory, recovery_point))
        segments[-1].open(make=True)
        end_offset = recovery_point
    start_offset = min(start_offset, end_offset)
    return Loaded(
        segments,
        producers,
        start_offset,
        end_offset,
        min(recovery_point, end_offset),
        is_new=is_short,
        damage=damage,
        cut=cut,
        scanned=scanned,
        gaps=_gaps(segments, ends, start_offset),
    )


def _gaps(segments: Sequence[Segment], ends: Sequence[int | None], start_offset: int) -> list[Gap]:
    """Between the end of each segment, None where that is not known, and the base of the next one."""
    found = [
        Gap(max(end, start_offset), following.base_offset)
        for end, following in zip(ends, segments[1:], strict=False)
        if end is not None
    ]
    return [gap for gap in found if gap.start < gap.end]


def _end_of(segment: Segment) -> int | None:
    """One past the last offset of a segment that is not scanned, by the headers behind its last index entry;
    None where they make no sense, which the first reader finds out. Raises OSError.
    """
    end, position = segment.last_extent()
    return end if position == segment.size or _is_cut_off(segment, position, segment.size, end) else None


def _end_of_checked(segment: Segment, size: int, end_offset: int) -> int | None:
    """The same of a segment of `size` bytes that was scanned: None where bad bytes stand at the end, which
    are damage and no gap.
    """
    tail = segment.verified.damage[-1].start if segment.verified.damage else size
    is_whole = not segment.verified.damage or segment.verified.damage[-1].end < size
    return end_offset if is_whole or _is_cut_off(segment, tail, size, end_offset) else None


def _is_cut_off(segment: Segment, position: int, size: int, offset: int) -> bool:
    """Whether the file ends within the batch at `position`, which begins with `offset`. Raises OSError."""
    if size - position < HEADER_BYTES:
        return True
    header = header_at(disk.read_at(segment.open(), position, HEADER_BYTES), 0)
    return header.base_offset == offset and position + header.size > size


def _list(directory: str) -> tuple[list[int], list[int]]:
    """The base offsets of segments and the offsets of snapshots, in order; what was left over is removed."""
    bases: list[int] = []
    snapshots: list[int] = []
    indexes: list[tuple[int, str]] = []
    for name in disk.names_in(directory):
        if name.endswith(_LEFT_OVER):
            disk.remove(os.path.join(directory, name))
            continue
        match parse_segment_file(name):
            case offset, suffix if suffix == LOG:
                bases.append(offset)
            case offset, suffix if suffix == SNAPSHOT:
                snapshots.append(offset)
            case offset, suffix if suffix in (OFFSET_INDEX, TIME_INDEX):
                indexes.append((offset, name))
    for offset, name in indexes:
        if offset not in bases:
            disk.remove(os.path.join(directory, name))
    for offset in snapshots[:-1]:
        if offset not in bases:
            disk.remove(os.path.join(directory, segment_file(offset, SNAPSHOT)))
    return bases, snapshots


def _holding(bases: list[int], offset: int) -> int:
    """Which segment an offset is in."""
    return max(sum(base <= offset for base in bases) - 1, 0)


def _ends_at(active: Segment, end_offset: int) -> bool:
    """Whether the last batch is whole and good, ends the file, and has the offset before `end_offset`."""
    entry = active.offsets.at_or_before(end_offset - active.base_offset)
    position, offset = 0, active.base_offset
    for found in active.batches(entry[1] if entry else 0):
        position, offset = found.position + found.header.size, found.header.last_offset + 1
    return position == active.size and offset == end_offset and not active.verified.damage


def _restore(directory: str, snapshots: list[int], latest: int) -> tuple[Producers, int]:
    """The newest snapshot that is readable and not after `latest`, and its offset; (nobody, 0) without
    one.
    """
    for offset in reversed(snapshots):
        if offset <= latest:
            content = disk.read_file(os.path.join(directory, segment_file(offset, SNAPSHOT)))
            producers = parse_snapshot(content or b"")
            if producers is not None:
                return producers, offset
    return Producers(), 0


def _replay(producers: Producers, header: BatchHeader, from_offset: int, seen_ms: int) -> None:
    if header.producer_id < 0 or header.base_offset < from_offset or header.is_control:
        return
    last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
    batch = TakenBatch(
        header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )
    producers.add(header.producer_id, header.producer_epoch, batch, max(header.max_timestamp, seen_ms))
    producers.settle()


def _recover(
    segment: Segment,
    producers: Producers,
    replayed_from: int,
    next_offset: int,
    ceiling: int | None,
    index_interval: int,
) -> int:
    """Checks every batch, makes the indexes anew, and returns the offset after the last one."""
    size = segment.size
    seen_ms = disk.modified_ms(segment.path)
    segment.restart()
    for found in scan(segment.open(), 0, size, next_offset, exact=True, ceiling=ceiling):
        if isinstance(found, Damage):
            segment.verified.note_damage(found)
            continue
        segment.size = found[0][0]
        for _, header in found:
            last_offset = header[0] + header[6]
            segment.note(header[1] + LENGTH_OVERHEAD, last_offset, header[8], index_interval)
            if header[9] >= 0:
                _replay(producers, BatchHeader._make(header), replayed_from, seen_ms)
        next_offset = last_offset + 1
    return next_offset


def _cut_tail(active: Segment) -> int:
    """Bytes behind the last good batch, which are gone now."""
    left = disk.size_of(active.path) - active.size
    if left:
        disk.truncate(active.open(), active.size)
        active.verified.forget_tail(active.size)
    return left
