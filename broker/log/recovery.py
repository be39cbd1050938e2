"""Recovers a partition's directory when the broker starts (Kafka's LogLoader), and reports what it found.

Called by the log directories for each partition, before any append or read; the composition root logs the
report. After a clean shutdown only the tail is checked; otherwise every segment from the recovery point on is
read and checked batch by batch, its indexes are rebuilt, and an incomplete batch at the end is cut off.

Damaged bytes before good batches stay in place, are reported, and are never sent to a reader: cutting there,
as Kafka does, would lose acknowledged records and assign their offsets again.

An index or a producer snapshot that is missing or does not agree with the batches is rebuilt from them.
"""

import os
from collections.abc import Sequence
from errno import EINVAL
from typing import Final, NamedTuple

import msgspec

from broker.common.errors import ApiError
from broker.common.slices import run_through
from broker.log import disk
from broker.log.aborted_transactions import AbortedTransaction
from broker.log.disk import MIN_OPEN_FILES, OpenFiles
from broker.log.layout import (
    CLEANED,
    DELETED,
    INDEX_RECORD,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    START_OFFSETS,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_file,
    segment_file,
)
from broker.log.producer_state import BatchMetadata, ProducerStates, parse_snapshot, sequence_after
from broker.log.scan import Damage, scan
from broker.log.segment import BatchPosition, Segment
from broker.records.control import marker_of
from broker.records.header import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    header_at,
)

_MAX_RECOVERY_POINT: Final = 1 << 62
"""A larger recovery point indicates a damaged checkpoint."""

_LEFT_OVER: Final = (DELETED, ".tmp", SWAP, CLEANED)


class DamagedStretch(NamedTuple):
    """Bytes of a segment file that are not valid batches."""

    path: str
    start: int
    end: int


class Gap(NamedTuple):
    """Offsets from `start` to before `end` that were assigned and whose records are missing."""

    start: int
    end: int


class TruncatedTail(NamedTuple):
    """A partition that lost an incomplete batch at its end; it now ends at `end_offset`."""

    topic: str
    partition: int
    end_offset: int
    bytes_cut: int


class UnreadablePartition(NamedTuple):
    """A partition that stays offline until the next start."""

    topic: str
    partition: int
    error: OSError


class Missing(NamedTuple):
    """Flushed records of a partition that are missing, from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


class OfflineDirectory(NamedTuple):
    """A log directory that stays offline until the next start."""

    directory: str
    error: OSError


class DuplicatePartition(NamedTuple):
    """A partition found in two log directories after an interrupted move. The copy in `directory` is
    used; the other one was renamed.
    """

    topic: str
    partition: int
    directory: str
    renamed_to: str


class Repaired(NamedTuple):
    """A checkpoint file that was damaged or missing, or whose copy was; both are then written anew."""

    path: str
    reason: str


class Exposure(msgspec.Struct):
    """Result of restricting the modes in one log directory; see `directories.tighten`.

    `tightened` files and folders were open to others. `error` is the first that could not be changed. `mode`
    is the log directory's own mode if others may list it or write to it, else 0: the directory may hold
    foreign files, so its mode is not changed.
    """

    directory: str
    tightened: int = 0
    error: OSError | None = None
    mode: int = 0

    def __bool__(self) -> bool:
        return bool(self.tightened or self.error or self.mode)


class Recovery(msgspec.Struct):
    """The result of opening all log directories.

    `unclean` lists log directories without a clean shutdown. `damage` lists byte ranges that stay on disk and
    are not served, `rebuilt` files beside the segments that did not agree with them.
    """

    partitions: int = 0
    scanned_bytes: int = 0
    unclean: list[str] = msgspec.field(default_factory=list)
    truncated: list[TruncatedTail] = msgspec.field(default_factory=list)
    damage: list[DamagedStretch] = msgspec.field(default_factory=list)
    rebuilt: list[str] = msgspec.field(default_factory=list)
    repaired: list[Repaired] = msgspec.field(default_factory=list)
    unreadable: list[UnreadablePartition] = msgspec.field(default_factory=list)
    missing: list[Missing] = msgspec.field(default_factory=list)
    offline: list[OfflineDirectory] = msgspec.field(default_factory=list)
    duplicates: list[DuplicatePartition] = msgspec.field(default_factory=list)
    exposed: list[Exposure] = msgspec.field(default_factory=list)


class Loaded(NamedTuple):
    """The recovered state of a partition.

    `segments` has at least one element; `cut` counts the bytes cut off at the end, `scanned` the bytes
    checked. `snapshot_at`: offset of the producer snapshot on disk; -1 for none. `gaps` are sorted and after
    the log start offset. `rebuilt` are paths.
    """

    segments: list[Segment]
    producers: ProducerStates
    log_start_offset: int
    end_offset: int
    recovery_point: int
    snapshot_at: int = -1
    is_new: bool = False
    damage: Sequence[DamagedStretch] = ()
    cut: int = 0
    scanned: int = 0
    gaps: Sequence[Gap] = ()
    rebuilt: Sequence[str] = ()


def load(
    files: OpenFiles,
    directory: str,
    *,
    start_offset: int,
    recovery_point: int,
    clean: bool,
    index_interval: int,
    start_is_proven: bool = True,
) -> Loaded:
    """Recover a partition's directory.

    `recovery_point`: everything before it has been flushed; after a `clean` shutdown it is the log end
    offset. `start_is_proven`: `start_offset` has a checksum, so the log continues there if it ends earlier.
    Raises OSError.
    """
    _finish_swaps(directory)
    bases, snapshots, with_aborted = _list(directory)
    if not bases:
        end = max(start_offset, recovery_point) if recovery_point < _MAX_RECOVERY_POINT else start_offset
        if end > recovery_point and not start_is_proven:
            raise _start_after(end, recovery_point, directory)
        segment = Segment(files, directory, end)
        segment.open(make=True)
        gaps = [Gap(start_offset, end)] if start_offset < end else []
        return Loaded([segment], ProducerStates(), end, end, end, is_new=True, gaps=gaps)
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
    wrong = [each for each in segments if each.base_offset in with_aborted and not each.read_aborted()]
    rebuilt = [each.aborted.path for each in wrong]
    if clean and not wrong and start_offset <= recovery_point:
        indexed_from, is_indexed = segments[-1].indexed_from()
        if not is_indexed:
            rebuilt.append(segments[-1].offsets.path)
        elif _ends_at(segments[-1], indexed_from, recovery_point):
            producers, snapshot_at = _restore(directory, snapshots, recovery_point)
            if snapshot_at < recovery_point and start_offset < recovery_point:
                rebuilt.append(os.path.join(directory, segment_file(recovery_point, SNAPSHOT)))
                _replay_all(producers, segments[_segment_index(bases, snapshot_at) :], snapshot_at)
            gaps = _gaps(segments, [_end_of(each) for each in segments[:-1]], start_offset)
            end = recovery_point
            return Loaded(
                segments, producers, start_offset, end, end, snapshot_at, gaps=gaps, rebuilt=rebuilt
            )
    checked_from = min([recovery_point, *(each.base_offset for each in wrong)])
    first = min(_segment_index(bases, checked_from), len(bases) - 1)
    # Not a newer snapshot: the abort markers of the scanned segments need the transactions before them.
    producers, replayed_from = _restore(directory, snapshots, bases[first])
    damage: list[DamagedStretch] = []
    scanned = cut = 0
    _replay_all(producers, segments[_segment_index(bases, replayed_from) : first], replayed_from)
    end_offset = bases[first]
    ends = [_end_of(each) for each in segments[:first]]
    for segment, following in zip(segments[first:], [*bases[first + 1 :], None], strict=True):
        size = segment.size
        scanned += size
        start = max(end_offset, segment.base_offset)
        end_offset = _recover(segment, producers, replayed_from, start, following, index_interval)
        if segment is segments[-1]:
            cut = _cut_tail(segment)
            segment.aborted.spill()
        else:
            segment.seal()
        damage += [DamagedStretch(segment.path, *stretch) for stretch in segment.verified.damage]
        ends.append(_end_of_checked(segment, size, end_offset))
    if start_offset > end_offset and not start_is_proven:
        raise _start_after(start_offset, end_offset, directory)
    continues_at = start_offset
    if recovery_point < _MAX_RECOVERY_POINT:
        continues_at = max(start_offset, recovery_point)
    is_short = end_offset < continues_at
    if is_short:
        # Flushed or deleted records are missing at the end. Their offsets are not assigned again.
        segments.append(Segment(files, directory, continues_at))
        segments[-1].open(make=True)
        end_offset = continues_at
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
        rebuilt=rebuilt,
    )


def _start_after(start_offset: int, end_offset: int, directory: str) -> OSError:
    why = f"the log start offset {start_offset} is after the log end offset {end_offset}"
    return OSError(EINVAL, why, os.path.join(os.path.dirname(directory), START_OFFSETS))


def _gaps(segments: Sequence[Segment], ends: Sequence[int | None], start_offset: int) -> list[Gap]:
    """Return the gaps between each segment's end (None if unknown) and the next base offset."""
    found = [
        Gap(max(end, start_offset), following.base_offset)
        for end, following in zip(ends, segments[1:], strict=False)
        if end is not None
    ]
    return [gap for gap in found if gap.start < gap.end]


def _end_of(segment: Segment) -> int | None:
    """Return one past the last offset of an unscanned segment, from the headers after its last index entry.

    Rebuilds an index whose end is wrong. None if the headers are inconsistent; the first read then finds the
    damage. Raises OSError.
    """
    end, position, is_indexed = segment.last_extent()
    if not is_indexed:
        run_through(segment.rebuild_indexes())
    return end if position == segment.size or _is_cut_off(segment, position, segment.size, end) else None


def _end_of_checked(segment: Segment, size: int, end_offset: int) -> int | None:
    """Return the end offset of a scanned segment of `size` bytes.

    None if it ends in bad bytes, which count as damage and not as a gap.
    """
    tail = segment.verified.damage[-1].start if segment.verified.damage else size
    is_whole = not segment.verified.damage or segment.verified.damage[-1].end < size
    return end_offset if is_whole or _is_cut_off(segment, tail, size, end_offset) else None


def _is_cut_off(segment: Segment, position: int, size: int, offset: int) -> bool:
    """Return whether the file ends within the batch at `position`, which starts at `offset`.

    Raises OSError.
    """
    if size - position < HEADER_BYTES:
        return True
    header = header_at(disk.read_at(segment.open(), position, HEADER_BYTES), 0)
    return header.base_offset == offset and position + header.size > size


def _list(directory: str) -> tuple[list[int], list[int], set[int]]:
    """Return the sorted base offsets of segments and offsets of snapshots, and the base offsets of segments
    that have or had aborted transactions; remove leftover files.
    """
    bases: list[int] = []
    snapshots: list[int] = []
    with_aborted: set[int] = set()
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
            case offset, suffix if suffix in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, INDEX_RECORD):
                indexes.append((offset, name))
                if suffix in (TXN_INDEX, INDEX_RECORD):
                    with_aborted.add(offset)
    for offset, name in indexes:
        if offset not in bases:
            disk.remove(os.path.join(directory, name))
    for offset in snapshots[:-1]:
        if offset not in bases:
            disk.remove(os.path.join(directory, segment_file(offset, SNAPSHOT)))
    return bases, snapshots, with_aborted


def _segment_index(bases: list[int], offset: int) -> int:
    """Return the index of the segment that holds the offset."""
    return max(sum(base <= offset for base in bases) - 1, 0)


def _ends_at(active: Segment, start: int, end_offset: int) -> bool:
    """Return whether the last batch from `start` on is valid, ends the file, and ends at `end_offset`."""
    position, offset = 0, active.base_offset
    for found in active.batches(start):
        position, offset = found.position + found.header.size, found.header.last_offset + 1
    return position == active.size and offset == end_offset and not active.verified.damage


def _restore(directory: str, snapshots: list[int], latest: int) -> tuple[ProducerStates, int]:
    """Return the newest readable snapshot up to `latest` and its offset; (no producers, 0) without one."""
    for offset in reversed(snapshots):
        if offset <= latest:
            content = disk.read_file(os.path.join(directory, segment_file(offset, SNAPSHOT)))
            producers = parse_snapshot(content or b"")
            if producers is not None:
                return producers, offset
    return ProducerStates(), 0


def _replay_all(producers: ProducerStates, segments: Sequence[Segment], from_offset: int) -> None:
    for segment in segments:
        seen_ms = disk.modified_ms(segment.path)
        for found in segment.batches():
            _replay(producers, segment, found, from_offset, seen_ms)


def _replay(
    producers: ProducerStates, segment: Segment, found: BatchPosition, from_offset: int, seen_ms: int
) -> AbortedTransaction | None:
    """Apply a batch; return the transaction that it aborts, if it does. Raises OSError."""
    header = found.header
    if header.producer_id < 0 or header.base_offset < from_offset:
        return None
    if header.is_control:
        return _replay_marker(producers, header, segment.batch(found), seen_ms)
    last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
    batch = BatchMetadata(
        header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp
    )
    producers.add(
        header.producer_id,
        header.producer_epoch,
        batch,
        max(header.max_timestamp, seen_ms),
        header.attributes & TRANSACTIONAL_FLAG != 0,
    )
    producers.settle()
    return None


def _replay_marker(
    producers: ProducerStates, header: BatchHeader, batch: bytes, seen_ms: int
) -> AbortedTransaction | None:
    try:
        marker = marker_of(batch)
    except ApiError:
        return None  # as of an unknown type: nothing that this broker writes
    if marker is None:
        return None
    seen_ms = max(header.max_timestamp, seen_ms)
    first = producers.end(header.producer_id, header.producer_epoch, marker.coordinator_epoch, seen_ms)
    producers.settle()
    if first < 0 or marker.is_commit:
        return None
    stable = producers.first_ongoing
    if stable < 0:
        stable = header.last_offset + 1
    return AbortedTransaction(header.producer_id, first, header.last_offset, stable)


def _recover(
    segment: Segment,
    producers: ProducerStates,
    replayed_from: int,
    next_offset: int,
    ceiling: int | None,
    index_interval: int,
) -> int:
    """Check every batch, rebuild the indexes, and return the offset after the last batch."""
    size = segment.size
    seen_ms = disk.modified_ms(segment.path)
    segment.restart()
    for found in scan(segment.open(), 0, size, next_offset, exact=True, ceiling=ceiling):
        if isinstance(found, Damage):
            segment.verified.note_damage(found)
            continue
        segment.size = found[0][0]
        for position, header in found:
            last_offset = header[0] + header[6]
            segment.note(header[1] + LENGTH_OVERHEAD, last_offset, header[8], index_interval)
            if header[9] >= 0:
                batch = BatchPosition(position, BatchHeader._make(header))
                aborted = _replay(producers, segment, batch, replayed_from, seen_ms)
                if aborted is not None:
                    segment.aborted.append(aborted)
        next_offset = last_offset + 1
    return next_offset


def _cut_tail(active: Segment) -> int:
    """Truncate the file after the last good batch and return the number of bytes removed."""
    left = disk.size_of(active.path) - active.size
    if left:
        disk.truncate(active.open(), active.size)
        active.verified.forget_tail(active.size)
    return left


def _finish_swaps(directory: str) -> None:
    """Complete the replacement of segments by their cleaned copy. A kill meanwhile leaves work for the next
    start. Raises OSError.

    `PartitionLog.replace` does the same while the broker runs, in this order, so that a kill at any point
    leaves either the old segments or their copy:

        00..0.log.cleaned   the copy is being written: a start removes it
        00..0.log.swap      the copy is complete and on disk: a start removes the segments that it replaces
        00..0.log.deleted   a segment that was replaced: a start removes it
        00..0.log           the copy has its final name

    The copy ends with the last offset of the segments that it replaces, so its own records show which they
    are.
    """
    names = disk.names_in(directory)
    for name in names:
        if not name.endswith(LOG + SWAP):
            continue
        parsed = parse_segment_file(name.removesuffix(SWAP))
        if parsed is None:
            continue
        size = disk.size_of(os.path.join(directory, name))
        cleaned = Segment(OpenFiles(MIN_OPEN_FILES), directory, parsed[0], size=size, name_suffix=SWAP)
        end = cleaned.last_extent().end_offset
        for other in names:
            replaced = parse_segment_file(other)
            if replaced is not None and cleaned.base_offset < replaced[0] < end:
                disk.remove(os.path.join(directory, other))
        cleaned.rename("")
