"""Reads every record of a batch: whether a log may take them, and which one is the first of a time.

Called by PartitionLog, for the batches that `record.validation` names and for topics whose other settings
need the records; other batches are taken by their header alone (`validate`). Follows Kafka's LogValidator and
DefaultRecord. Reads in slices, for a batch may hold hundreds of thousands of records: keys, values and
headers are passed over, and none of them is copied.
"""

from typing import Final, NamedTuple

from broker.errors import ApiError, ErrorCode
from broker.records.framing import check_framing
from broker.records.header import HEADER_BYTES, NO_TIMESTAMP, Buffer, header_at
from broker.records.plain_records import pass_plain_records
from broker.records.slices import AT_ONCE, SLICE, Slices
from broker.records.varint import read_int, read_varint
from broker.records.walk import unpacked

_COPIED: Final = 1_048_576
"""Bytes of records that are copied first, as `bytes` are read a tenth faster than views of them; ours."""

UNBOUNDED: Final = 1 << 70
"""Beyond every timestamp, on either side of 0."""


class RecordRules(NamedTuple):
    """What a topic asks of records, times in ms. `most_parts` bounds records and headers of records together.
    A record without a timestamp (-1) is never too early.
    """

    keys_needed: bool
    earliest_ms: int
    latest_ms: int
    most_parts: int


def check_records(batch: Buffer, rules: RecordRules) -> Slices[int]:
    """The largest timestamp of the records of a batch that `validate.check_batch` has let through.

    Raises ApiError: INVALID_RECORD (no key, or offsets that do not go up by one), INVALID_TIMESTAMP (before
    `earliest_ms` or after `latest_ms`), CORRUPT_MESSAGE (not what its codec says, another number of records
    than the header says, or a record whose parts do not fill it), MESSAGE_TOO_LARGE (too many parts), and
    what `decompress` raises.
    """
    header = header_at(batch)
    count = header.record_count
    if count > AT_ONCE:
        yield None
    check_framing(header.codec, memoryview(batch)[HEADER_BYTES:])
    data = yield from unpacked(batch)
    base = header.base_timestamp
    least_delta = rules.earliest_ms - base
    spare = rules.most_parts - count
    _check_parts(spare, rules)
    size = len(data)
    if size <= _COPIED:
        data = bytes(data)
    at = done = 0
    largest = -UNBOUNDED
    resting = SLICE
    while done < count:
        stop = min(done + resting, count)
        at, before, largest = pass_plain_records(
            data, at, done, stop, largest, base, least_delta, rules.keys_needed
        )
        resting -= before - done
        done = before
        if done < stop:
            at, end, delta, headers = _check_record(data, at, done, base, rules)
            largest = max(largest, delta)
            spare -= headers
            _check_parts(spare, rules)
            done += 1
            resting -= 1
            for _ in range(headers):
                name_length, at = read_int(data, at)
                if name_length < 0:
                    raise _corrupt("a header has no name")
                value_length, at = read_int(data, at + name_length)
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
    if base + largest > rules.latest_ms:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"Timestamp {base + largest} is after {rules.latest_ms}")
    return base + largest


def _check_record(
    data: Buffer, at: int, expected: int, base: int, rules: RecordRules
) -> tuple[int, int, int, int]:
    """(where its headers begin, where it ends, its timestamp less `base`, its headers)."""
    length, start = read_int(data, at)
    end = start + length
    if length < 0 or end > len(data):
        raise _corrupt("it is longer than its batch")
    delta, at = read_varint(data, start + 1)
    offset_delta, at = read_int(data, at)
    key_length, at = read_int(data, at)
    if key_length > 0:
        at += key_length
    value_length, at = read_int(data, at)
    if value_length > 0:
        at += value_length
    headers, at = read_int(data, at)
    # A header has at least two bytes.
    if at > end or not 0 <= headers <= (end - at) // 2:
        raise _corrupt("its parts do not fit into it")
    if offset_delta != expected:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Inner record offsets are not incremental: expected {expected}, got {offset_delta}",
        )
    if rules.keys_needed and key_length < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "A compacted topic cannot accept a record without a key")
    if base + delta < rules.earliest_ms and base + delta != NO_TIMESTAMP:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"Timestamp {base + delta} is before {rules.earliest_ms}")
    return at, end, delta, headers


def _check_parts(spare: int, rules: RecordRules) -> None:
    if spare < 0:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"The batch has more than {rules.most_parts} records and headers"
        )


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
