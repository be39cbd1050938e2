"""Which offset belongs to a time (ListOffsets; Kafka's LogSegment.findOffsetByTimestamp).

Called by PartitionLog, with its segments in order. Uses the time index to come near, then looks at batches,
then at records. Knows no request.
"""

from collections.abc import Sequence

from broker.errors import ApiError
from broker.log.segment import Found, Segment
from broker.records.walk import records


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from offset `start` on that is not older than `timestamp`.
    Raises OSError.
    """
    for segment in segments:
        if segment.newest()[0] < timestamp:
            continue
        near = segment.times.at_or_before(timestamp)
        relative = max(near[1] if near else 0, start - segment.base_offset)
        for found in segment.batches(segment.near(segment.base_offset + relative)):
            if found.header.max_timestamp >= timestamp and found.header.last_offset >= start:
                record = _record(segment, found, timestamp, start)
                if record is not None:
                    return record
    return None


def newest(segments: Sequence[Segment]) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the greatest timestamp; None where no record has one.
    Raises OSError.
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
    return None if found is None else _record(segment, found, timestamp, 0)


def _record(segment: Segment, found: Found, timestamp: int, start: int) -> tuple[int, int] | None:
    """The record in the batch; the batch itself, where its producer packed something that cannot be read."""
    header = found.header
    if header.uses_append_time:
        return max(header.base_offset, start), header.max_timestamp
    try:
        for record in records(segment.batch(found)):
            if record.timestamp >= timestamp and record.offset >= start:
                return record.offset, record.timestamp
    except ApiError:
        return max(header.base_offset, start), header.max_timestamp
    return None
