"""Which offset belongs to a time (ListOffsets; Kafka's LogSegment.findOffsetByTimestamp).

Called by PartitionLog, with its segments in order. Uses the time index to come near, then looks at batches,
then at records, in slices. Knows no request.
"""

from collections.abc import Sequence
from typing import Final

from broker.errors import ApiError
from broker.log.segment import Found, Segment
from broker.records.inspect import first_record
from broker.records.slices import SLICE, Slices

_UNTRUE: Final = 16
"""Batches whose header promises a record that they do not have, read in one lookup; the next one is taken at
its word. No client writes them, and each can cost as much as a whole batch; ours.
"""


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, start: int
) -> Slices[tuple[int, int] | None]:
    """(offset, timestamp) of the first record from offset `start` on that is not older than `timestamp`.
    `segments` must not change meanwhile. Raises OSError.
    """
    untrue = 0
    for segment in segments:
        if segment.newest()[0] < timestamp:
            continue
        near = segment.times.at_or_before(timestamp)
        relative = max(near[1] if near else 0, start - segment.base_offset)
        position: int | None = segment.near(segment.base_offset + relative)
        while position is not None:
            found, position = _next(segment, position, timestamp, start)
            if found is None:
                if position is not None:
                    yield None
                continue
            record = yield from _record(segment, found, timestamp, start)
            if record is None and found.header.base_offset >= start:
                untrue += 1
                if untrue > _UNTRUE:
                    record = found.header.base_offset, found.header.max_timestamp
            if record is not None:
                return record
            yield None
    return None


def _next(segment: Segment, position: int, timestamp: int, start: int) -> tuple[Found | None, int | None]:
    """The next batch that may hold the record, among the next `SLICE`, and where the one after these begins;
    None there at the end of the segment. No file stays in use afterwards.
    """
    left = SLICE
    for found in segment.batches(position):
        header = found.header
        position = found.position + header.size
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            return found, position
        left -= 1
        if not left:
            return None, position
    return None, None


def newest(segments: Sequence[Segment]) -> Slices[tuple[int, int] | None]:
    """(offset, timestamp) of the first record with the greatest timestamp; None where no record has one.
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


def _record(segment: Segment, found: Found, timestamp: int, start: int) -> Slices[tuple[int, int] | None]:
    """The record in the batch; the batch itself, where its producer packed something that cannot be read."""
    header = found.header
    if header.uses_append_time:
        return max(header.base_offset, start), header.max_timestamp
    try:
        return (yield from first_record(segment.batch(found), timestamp, start))
    except ApiError:
        return max(header.base_offset, start), header.max_timestamp
