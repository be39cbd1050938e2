"""Whether every single record of a batch may be taken, where a topic asks for that; and which record of a
batch is the first of a time.

Called by PartitionLog for compacted topics and for topics that bound how old records may be; other topics
are served by the header alone (`validate`), which costs a hundredth. Follows Kafka's LogValidator. Reads in
slices, for a batch may hold hundreds of thousands of records: keys, values and headers are passed over, and
none of them is copied.
"""

from broker.errors import ApiError, ErrorCode
from broker.records.header import Buffer, header_at
from broker.records.slices import AT_ONCE, SLICE, Slices
from broker.records.varint import read_varint
from broker.records.walk import unpacked


def check_records(batch: Buffer, *, keys_needed: bool, earliest_ms: int, max_parts: int) -> Slices[None]:
    """Raises ApiError: INVALID_RECORD (no key, or offsets that do not go up by one), INVALID_TIMESTAMP
    (before `earliest_ms`), CORRUPT_MESSAGE (also when the header says another number of records than come),
    MESSAGE_TOO_LARGE (more than `max_parts` records and headers of records together), and what
    `decompress` raises.
    """
    header = header_at(batch)
    data = yield from unpacked(batch)
    if header.record_count > AT_ONCE:
        yield None
    size = len(data)
    at = parts = 0
    resting = SLICE
    for expected in range(header.record_count):
        length, start = read_varint(data, at)
        end = start + length
        if length < 0 or end > size:
            raise _corrupt("it is longer than its batch")
        delta, at = read_varint(data, start + 1)
        offset_delta, at = read_varint(data, at)
        key_length, at = read_varint(data, at)
        if key_length > 0:
            at += key_length
        value_length, at = read_varint(data, at)
        if value_length > 0:
            at += value_length
        if at > end:
            raise _corrupt("a key or a value is longer than it")
        if offset_delta != expected:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"Inner record offsets are not incremental: expected {expected}, got {offset_delta}",
            )
        if keys_needed and key_length < 0:
            raise ApiError(ErrorCode.INVALID_RECORD, "A compacted topic cannot accept a record without a key")
        timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + delta
        if 0 <= timestamp < earliest_ms:
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"Timestamp {timestamp} is before {earliest_ms}")
        headers, at = read_varint(data, at)
        # A header has at least two bytes.
        if not 0 <= headers <= (end - at) // 2:
            raise _corrupt(f"{headers} headers do not fit")
        parts += 1 + headers
        if parts > max_parts:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE, f"The batch has more than {max_parts} records and headers"
            )
        resting -= 1
        for _ in range(headers):
            name_length, at = read_varint(data, at)
            if name_length < 0:
                raise _corrupt("a header has no name")
            value_length, at = read_varint(data, at + name_length)
            if value_length > 0:
                at += value_length
            if at > end:
                raise _corrupt("a header is longer than it")
            resting -= 1
            if resting <= 0:
                resting = SLICE
                yield None
        if at != end:
            raise _corrupt("its parts do not fill it")
        if resting <= 0:
            resting = SLICE
            yield None
    if at != size:
        raise _corrupt("more follows than the header says")


def first_record(batch: Buffer, timestamp: int, start: int) -> Slices[tuple[int, int] | None]:
    """(offset, timestamp) of the first record of a batch, with its own times, from offset `start` on that is
    not older than `timestamp`; None where there is none. Raises ApiError CORRUPT_MESSAGE, and what
    `decompress` raises; what follows the record found is not looked at.
    """
    header = header_at(batch)
    data = yield from unpacked(batch)
    if header.record_count > AT_ONCE:
        yield None
    size = len(data)
    least_delta = timestamp - header.base_timestamp
    least_offset = start - header.base_offset
    at = 0
    resting = SLICE
    for _ in range(header.record_count):
        length, begin = read_varint(data, at)
        at = begin + length
        if length < 0 or at > size:
            raise _corrupt("it is longer than its batch")
        delta, begin = read_varint(data, begin + 1)
        if delta >= least_delta:
            offset_delta, begin = read_varint(data, begin)
            if offset_delta >= least_offset:
                return header.base_offset + offset_delta, header.base_timestamp + delta
        if begin > at:
            raise _corrupt("its parts do not fill it")
        resting -= 1
        if not resting:
            resting = SLICE
            yield None
    if at != size:
        raise _corrupt("more follows than the header says")
    return None


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A record is corrupt: {why}")
