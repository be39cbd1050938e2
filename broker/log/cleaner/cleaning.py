"""One pass of the cleaner over one log (Kafka's Cleaner).

Created by `broker.server.disk.log_cleaner`, which runs the pieces of `index` and of each `clean` in a thread,
and calls the other methods on the event loop's thread between them. The pass reads the dirty part and notes
the last offset of each key, as far as the offset map has room. Then it copies all segments before that end,
in groups, without the obsolete records, and puts each copy in the place of its group.

If the pass stops anywhere, the log is complete: each group has its old segments or the copy. Files of an
unfinished copy end in `.cleaned`; `discard` removes them, or the next start does.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.common.errors import ApiError, ErrorCode
from broker.log import disk
from broker.log.aborted_transactions import AbortedTransaction, entries_of
from broker.log.cleaner.batches import Retained, emptied, note_keys, rewritten, select
from broker.log.cleaner.manager import Cleanable, CleanerStats
from broker.log.cleaner.offset_map import NONE, SLOT_BYTES, OffsetMap
from broker.log.cleaner.pace import Pace
from broker.log.disk import MIN_OPEN_FILES, OpenFile, OpenFiles
from broker.log.index import MAX_RELATIVE_OFFSET
from broker.log.layout import CLEANED
from broker.log.partition import PartitionLog
from broker.log.segment import Segment
from broker.log.staged import Staged
from broker.records.compression import decompress
from broker.records.control import marker_of
from broker.records.header import (
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    header_at,
)

GROUPED_AT_MOST: Final = 8
"""Segments that one copy replaces, at most; ours. Renaming the files of one takes a tenth of a
millisecond.
"""

_first_offset = attrgetter("first_offset")

LEAST_READ_BYTES: Final = 4_096

Piece = Iterator[int]
"""Work in pieces: yields the bytes read and written by each, for the limit of bytes per second."""


class LogChanged(Exception):  # noqa: N818 - no error
    """The log was deleted, moved, or has lost segments meanwhile. The pass ends, and nothing is wrong."""


class CleaningLimits(NamedTuple):
    """The memory that one pass may use: bytes of the offset map, the share of it that may be used, and bytes
    read at once, at least LEAST_READ_BYTES.
    """

    map_bytes: int
    load_factor: float
    read_bytes: int


class LastRecord(NamedTuple):
    """The last write of a producer: the last offset of its last batch, or NONE; its epoch. (Kafka:
    LastRecord)
    """

    last_offset: int
    epoch: int


class _Batch(NamedTuple):
    header: BatchHeader
    content: memoryview
    end: int
    """Position after the batch."""


class CleanedTransactions:
    """The transactions between two batches of a pass: whose records are aborted, and which markers are still
    needed. `kept` are the aborted ones whose markers are. (Kafka: CleanedTransactionMetadata)

    Told of every batch of a pass, in order. A marker is needed as long as a batch of its transaction is in
    the log, because a reader of committed records learns from it how the transaction ended.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: those of the log whose markers are not before the first batch of the pass."""
        self._following = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._has_batches: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch, which is no marker, were aborted."""
        self._begin_before(header.last_offset)
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        if header.producer_id in self._aborted:
            self._has_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_obsolete(self, header: BatchHeader, batch: Buffer) -> bool:
        """Return whether no batch of a marker's transaction is left. Raises ApiError CORRUPT_MESSAGE."""
        self._begin_before(header.last_offset)
        if not header.record_count:
            return True  # an earlier pass has removed the record
        marker = marker_of(batch)
        producer_id = header.producer_id
        if marker is None:
            return False
        if marker.is_commit:
            was_committed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_committed
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._has_batches:
            return True
        self._has_batches.discard(producer_id)
        self.kept.append(aborted)
        return False

    def _begin_before(self, offset: int) -> None:
        following = self._following
        while following and following[-1].first_offset <= offset:
            each = following.pop()
            self._aborted.setdefault(each.producer_id, each)


class Cleaning:
    """One pass. `end_offset`, from `index` on: the first offset that the pass does not clean."""

    def __init__(self, part: Cleanable, limits: CleaningLimits, now_wall_ms: int, pace: Pace) -> None:
        """`now_wall_ms`: the time for delete horizons. `pace` lets other threads run. Raises OSError,
        ApiError CORRUPT_MESSAGE if the log has damaged bytes.
        """
        log = self.log = part.log
        self.stats = CleanerStats()
        self._part = part
        self._read_bytes = max(limits.read_bytes, LEAST_READ_BYTES)
        self._now_wall_ms = now_wall_ms
        self._pace = pace
        self._directory = log.directory
        self._segments = [each for each in log.segments[:-1] if each.base_offset < part.end]
        for each in self._segments:
            if each.verified.damage:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{each.path} has damaged bytes")
        bases = [each.base_offset for each in self._segments]
        self._ends = dict(zip(bases, [*bases[1:], part.end], strict=False))
        dirty = [each for each in self._segments if self._ends[each.base_offset] > part.first_dirty]
        self._dirty = dirty
        self._position = dirty[0].near(part.first_dirty) if dirty else 0
        self._aborted = b"".join([each.aborted.content() for each in log.segments])
        self._indexed = self._cleaned = CleanedTransactions(())
        slots = limits.map_bytes // SLOT_BYTES
        wanted = int((part.end - part.first_dirty) / limits.load_factor) + 2
        self._offsets = OffsetMap(min(slots, wanted), limits.load_factor)
        self._offsets.end_offset = part.first_dirty

    @property
    def end_offset(self) -> int:
        return self._offsets.end_offset

    @property
    def utilization(self) -> float:
        """The share of the slots of the offset map that are used."""
        return self._offsets.utilization

    def index(self) -> Piece:
        """Note the last offset of each key of the dirty part. Raises OSError, ApiError, LogChanged."""
        offsets, first = self._offsets, self._part.first_dirty
        aborted = entries_of(self._aborted)  # here, as there may be many
        self._indexed = CleanedTransactions([each for each in aborted if each.last_offset >= first])
        self._cleaned = CleanedTransactions(aborted)
        for segment in self._dirty:
            file = self._open(segment)
            for batches in _read(file, segment, self._position, self._read_bytes, self._pace):
                for header, content, _ in batches:
                    if not self._note(header, content, first):
                        return
                    offsets.end_offset = max(offsets.end_offset, header.last_offset + 1)
                size = batches[-1].end - self._position
                self._position += size
                self.stats.map_bytes_read += size
                yield size
            self._position = 0
            offsets.end_offset = self._ends[segment.base_offset]

    def _note(self, header: BatchHeader, content: memoryview, first: int) -> bool:
        """Note the keys of one batch. Return False if the map became full."""
        if header.is_control:
            self._indexed.is_marker_obsolete(header, content)
            return True
        if self._indexed.is_aborted(header) or header.last_offset < first:
            return True
        return note_keys(header, _records(header, content, self._pace), first, self._offsets, self._pace)

    def groups(self) -> list[list[Segment]]:
        """Return the segments before the end of the pass, each group to be replaced by one copy."""
        settings = self.log.settings
        groups: list[list[Segment]] = []
        size = index_size = 0
        for segment in self._segments:
            if segment.base_offset >= self.end_offset:
                break
            size += segment.size
            index_size += max(segment.offsets.size, segment.times.size)
            group = groups[-1] if groups else []
            end = self._ends[segment.base_offset]
            if (
                group
                and len(group) < GROUPED_AT_MOST
                and size <= settings.segment_bytes
                and index_size <= settings.segment_index_bytes
                and end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
            ):
                group.append(segment)
            else:
                groups.append([segment])
                size, index_size = segment.size, max(segment.offsets.size, segment.times.size)
        return groups

    def begin(self, group: Sequence[Segment]) -> "Copy":
        """Return the copy of a group, to be written in a thread.

        Raises LogChanged.
        """
        log = self.log
        if log.deleted or log.offline is not None or log.directory != self._directory:
            raise LogChanged
        producers = {
            producer_id: LastRecord(state.batches[-1].last_offset if state.batches else NONE, state.epoch)
            for producer_id, state in log.producers.items()
        }
        return Copy(self, group, producers)

    def write(self, copy: "Copy") -> Piece:
        """Write the copy's records, then its indexes, and flush all. Raises OSError, ApiError, LogChanged."""
        last = next((each for each in reversed(copy.group) if each.size), copy.group[-1])
        kept = len(self._cleaned.kept)
        target = copy.segment
        copy.discard()  # what a pass before this one has left
        target.open(make=True)
        for segment in copy.group:
            if not segment.size:
                continue
            file = self._open(segment)
            position = 0
            for batches in _read(file, segment, 0, self._read_bytes, self._pace):
                written: list[Buffer] = []
                staged: list[Staged] = []
                for header, content, end in batches:
                    is_last = segment is last and end == segment.size
                    new = self._cleaned_batch(header, content, copy.producers, is_last=is_last)
                    if new is not None:
                        written.append(new)
                        new_header = header_at(new)
                        staged.append(_staged(new_header))
                        self.stats.records_written += new_header.record_count
                size = sum(map(len, written))
                if written:
                    target.append(written, staged, self.log.settings.index_interval_bytes)
                read = batches[-1].end - position
                position = batches[-1].end
                self.stats.bytes_read += read
                self.stats.bytes_written += size
                yield read + size
        for each in self._cleaned.kept[kept:]:
            target.aborted.append(each)
        copy.finish(modified_ms=disk.modified_ms(last.path))

    def _cleaned_batch(
        self, header: BatchHeader, content: memoryview, producers: Mapping[int, LastRecord], *, is_last: bool
    ) -> Buffer | None:
        """Return what remains of a batch: all, some, an empty batch, or None. Raises ApiError."""
        self.stats.records_read += header.record_count
        horizon_ms = header.delete_horizon_ms
        is_obsolete_marker = False
        if header.is_control:
            is_obsolete_marker = self._cleaned.is_marker_obsolete(header, content)
            removes_all = is_obsolete_marker and horizon_ms is not None and horizon_ms <= self._now_wall_ms
        else:
            removes_all = self._cleaned.is_aborted(header)
        if not removes_all and header.record_count:
            new = self._with_records(header, content, is_obsolete_marker=is_obsolete_marker)
            if new is not None:
                return new
        if is_last or _is_last_of(header, producers):
            return emptied(header) if header.record_count else content
        return None

    def _with_records(
        self, header: BatchHeader, content: memoryview, *, is_obsolete_marker: bool
    ) -> Buffer | None:
        """Return the batch with the records that remain, or None if none do."""
        horizon_ms = self._now_wall_ms + self.log.settings.delete_retention_ms
        if header.is_control:
            if is_obsolete_marker and header.delete_horizon_ms is None:
                return _with_horizon(header, content, horizon_ms, self._pace)
            return content
        data = _records(header, content, self._pace)
        retained = select(header, data, self._offsets, self._now_wall_ms, self._pace)
        self.stats.keyless += retained.keyless
        sets_horizon = retained.has_tombstones and header.delete_horizon_ms is None
        if not retained.retained:
            return None
        if retained.retained == header.record_count and not sets_horizon:
            return content
        return rewritten(header, data, retained, horizon_ms if sets_horizon else None, self._pace)

    def _open(self, segment: Segment) -> OpenFile:
        try:
            return disk.open_file(segment.path)
        except FileNotFoundError as error:
            raise LogChanged from error


class Copy:
    """The copy of a group of segments. `segment` is complete after `write`."""

    def __init__(
        self, cleaning: Cleaning, group: Sequence[Segment], producers: Mapping[int, LastRecord]
    ) -> None:
        self.group = group
        self.producers = producers
        self._log: PartitionLog = cleaning.log
        self.segment = Segment(
            OpenFiles(MIN_OPEN_FILES), cleaning.log.directory, group[0].base_offset, name_suffix=CLEANED
        )

    def finish(self, modified_ms: int) -> None:
        """Complete the files and flush them. Blocks. Raises OSError.

        All its files exist afterwards, so that a rename replaces each of the first segment's.
        """
        segment = self.segment
        segment.seal()
        segment.keep_record()
        for path in segment.index_paths:
            disk.flush(disk.open_file(path, make=True))
        disk.flush(segment.open())
        disk.set_modified_ms(segment.path, modified_ms)
        disk.flush_directory(segment.directory)

    def replace(self) -> list[str]:
        """Put the copy in the place of its group, and return the files to remove later.

        Raises LogChanged, and ApiError KAFKA_STORAGE_ERROR.
        """
        replaced = self._log.replace(self.group, self.segment)
        if replaced is None:
            raise LogChanged
        return replaced

    def discard(self) -> None:
        """Remove the files of a copy that was not put in place."""
        if self.segment.name_suffix == CLEANED:
            for path in (*self.segment.index_paths, self.segment.path):
                with contextlib.suppress(OSError):
                    disk.remove(path)


def _read(
    file: OpenFile, segment: Segment, position: int, read_bytes: int, pace: Pace
) -> Iterator[list[_Batch]]:
    """Yield runs of complete batches from `position` on. Raises OSError, ApiError CORRUPT_MESSAGE."""
    end = segment.size
    wanted = read_bytes
    while position < end:
        chunk = memoryview(disk.read_at(file, position, min(wanted, end - position)))
        run: list[_Batch] = []
        at = 0
        wanted = read_bytes
        while at + HEADER_BYTES <= len(chunk):
            header = header_at(chunk, at)
            if header.magic != MAGIC or header.size < HEADER_BYTES or position + at + header.size > end:
                raise _damaged(segment, position + at)
            if at + header.size > len(chunk):
                wanted = max(read_bytes, header.size)
                break
            content = chunk[at : at + header.size]
            if crc32c(content[CRC_FROM:]) != header.crc or header.base_offset < segment.base_offset:
                raise _damaged(segment, position + at)
            at += header.size
            run.append(_Batch(header, content, position + at))
            pace.step()
            pace.copied(len(content))
        if run:
            position = run[-1].end
            yield run
        elif len(chunk) < HEADER_BYTES:
            raise _damaged(segment, position)


def _damaged(segment: Segment, position: int) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{segment.path} is damaged at byte {position}")


def _records(header: BatchHeader, content: memoryview, pace: Pace) -> bytes:
    """Return the records of a batch, decompressed. Raises ApiError as `decompress`."""
    decompressed = decompress(header.codec, content[HEADER_BYTES:])
    data = decompressed if isinstance(decompressed, bytes) else bytes(decompressed)
    pace.copied(len(data))
    return data


def _with_horizon(header: BatchHeader, content: memoryview, horizon_ms: int, pace: Pace) -> Buffer:
    """Return a marker with a delete horizon."""
    data = _records(header, content, pace)
    retained = Retained(
        [(0, len(data))], header.record_count, header.max_timestamp - header.base_timestamp, False, 0
    )
    return rewritten(header, data, retained, horizon_ms, pace)


def _is_last_of(header: BatchHeader, producers: Mapping[int, LastRecord]) -> bool:
    """Return whether the state of the batch's producer depends on the batch."""
    last = producers.get(header.producer_id) if header.producer_id >= 0 else None
    if last is None:
        return False
    if last.last_offset >= 0:
        return header.last_offset == last.last_offset
    return header.is_control and header.producer_epoch == last.epoch


def _staged(header: BatchHeader) -> Staged:
    return Staged(header.base_offset, header.last_offset, 0, -1, header.max_timestamp, header.size)
