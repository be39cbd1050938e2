"""Finds offsets by timestamp (ListOffsets; Kafka's LogSegment.findOffsetByTimestamp).

Called by PartitionLog with its segments in order. Starts at the time index, then scans batches, then records,
in slices.
"""

from collections.abc import Sequence
from typing import Final

from broker.common.errors import ApiError
from broker.common.slices import SLICE, Slices
from broker.log.segment import BatchPosition, Segment
from broker.records.inspect import first_record

_MAX_FALSE_HEADERS: Final = 16
"""Maximum batches per lookup whose header promises a record that they do not contain; ours.

The next such header is trusted. No client writes them, and each can cost as much as decoding a whole batch.
"""


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, start: int
) -> Slices[tuple[int, int] | None]:
    """Find (offset, timestamp) of the first record at or after offset `start` with at least `timestamp`.

    `segments` must not change meanwhile. Raises OSError.
    """
    false_headers = 0
    for segment in segments:
        if segment.newest()[0] < timestamp:
            continue
        begin = segment.start_of(timestamp)
        if begin is None:
            yield from segment.rebuild_indexes()
            begin = segment.start_of(timestamp) or segment.base_offset
        position: int | None = segment.near(max(begin, start))
        while position is not None:
            found, position = _next(segment, position, timestamp, start)
            if found is None:
                if position is not None:
                    yield None
                continue
            record = yield from _record(segment, found, timestamp, start)
            if record is None and found.header.base_offset >= start:
                false_headers += 1
                if false_headers > _MAX_FALSE_HEADERS:
                    record = found.header.base_offset, found.header.max_timestamp
            if record is not None:
                return record
            yield None
    return None


def _next(
    segment: Segment, position: int, timestamp: int, start: int
) -> tuple[BatchPosition | None, int | None]:
    """Return the next batch that may hold the record, and the position after the batches read.

    Reads at most `SLICE` batches. The position is None at the end of the segment. Keeps no file in use.
    """
    left = SLICE
    for found in segment.batches(position):
        header = found.header
        position = found.position + header.size
        if header.max_timestamp >= timestamp and header.last_offset >= start and header.record_count:
            return found, position
        left -= 1
        if not left:
            return None, position
    return None, None


def newest(segments: Sequence[Segment]) -> Slices[tuple[int, int] | None]:
    """Find (offset, timestamp) of the first record with the greatest timestamp; None if no record has one.

    `segments` must not change meanwhile. Raises OSError.
    """
    best: tuple[int, int, Segment] | None = None
    for segment in segments:
        timestamp, offset = segment.newest()
        if timestamp >= 0 and (best is None or timestamp > best[0]):
            best = timestamp, offset, segment
    if best is None:
        return None
    timestamp, offset, segment = best
    located = segment.locate(offset)
    found = None if located is None else next(segment.batches(located[0]), None)
    return None if found is None else (yield from _record(segment, found, timestamp, 0))


def _record(
    segment: Segment, found: BatchPosition, timestamp: int, start: int
) -> Slices[tuple[int, int] | None]:
    """Find the record in the batch; falls back to the batch if its records cannot be decoded."""
    header = found.header
    if header.uses_append_time:
        return max(header.base_offset, start), header.max_timestamp
    try:
        return (yield from first_record(segment.batch(found), timestamp, start))
    except ApiError:
        return max(header.base_offset, start), header.max_timestamp
