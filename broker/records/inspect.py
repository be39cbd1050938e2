"""Reads every record of a batch, to validate the records or to find the first record from a timestamp on.

Called by PartitionLog for the batches that `record.validation` selects and for topics whose other configs
need the records; `validate` checks other batches by their header alone. Follows Kafka's LogValidator and
DefaultRecord. Works in slices, because a batch may have hundreds of thousands of records. Keys, values and
headers are skipped without copying.
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
"""Bytes of records that are copied first, because `bytes` are read 10 % faster than views; our own limit."""

UNBOUNDED: Final = 1 << 70
"""Beyond every timestamp, on either side of 0."""


class RecordRules(NamedTuple):
    """The record rules of a topic, times in ms.

    `max_parts` limits the records and their headers together. A record without a timestamp (-1) is never too
    early.
    """

    keys_needed: bool
    earliest_ms: int
    latest_ms: int
    max_parts: int


def check_records(batch: Buffer, rules: RecordRules) -> Slices[int]:
    """Return the largest timestamp of the records of a batch that passed `validate.check_batch`.

    Raises ApiError: INVALID_RECORD (no key, or offsets that do not increase by one), INVALID_TIMESTAMP
    (before `earliest_ms` or after `latest_ms`), CORRUPT_MESSAGE (data that its codec cannot decompress,
    another number of records than in the header, or a record whose length does not match its parts),
    MESSAGE_TOO_LARGE (too many parts), and the errors of `decompress`.
    """
    header = header_at(batch)
    count = header.record_count
    if count > AT_ONCE:
        yield None
    check_framing(header.codec, memoryview(batch)[HEADER_BYTES:])
    data = yield from unpacked(batch)
    base = header.base_timestamp
    least_delta = rules.earliest_ms - base
    spare = rules.max_parts - count
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
                    raise _corrupt("a header key is null")
                value_length, at = read_int(data, at + name_length)
                if value_length > 0:
                    at += value_length
                if at > end:
                    raise _corrupt("a header exceeds the record")
                resting -= 1
                if resting <= 0:
                    resting = SLICE
                    yield None
            if at != end:
                raise _corrupt("its length does not match its parts")
        if resting <= 0:
            resting = SLICE
            yield None
    if at != size:
        raise _corrupt("data follows the last record")
    if base + largest > rules.latest_ms:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"Timestamp {base + largest} is after {rules.latest_ms}")
    return base + largest


def _check_record(
    data: Buffer, at: int, expected: int, base: int, rules: RecordRules
) -> tuple[int, int, int, int]:
    """Return the position of the headers, the end, the timestamp less `base`, and the number of headers."""
    length, start = read_int(data, at)
    end = start + length
    if length < 0 or end > len(data):
        raise _corrupt("its length exceeds the batch")
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
        raise _corrupt("its parts exceed its length")
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
            ErrorCode.MESSAGE_TOO_LARGE, f"The batch has more than {rules.max_parts} records and headers"
        )


def first_record(batch: Buffer, timestamp: int, start: int) -> Slices[tuple[int, int] | None]:
    """Return (offset, timestamp) of the first record from offset `start` that is not older than `timestamp`.

    Returns None if there is none. Reads a batch with CreateTime timestamps. Raises ApiError CORRUPT_MESSAGE,
    and the errors of `decompress`; records after the result are not checked.
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
            raise _corrupt("its length exceeds the batch")
        delta, begin = read_varint(data, begin + 1)
        if delta >= least_delta:
            offset_delta, begin = read_varint(data, begin)
            if offset_delta >= least_offset:
                return header.base_offset + offset_delta, header.base_timestamp + delta
        if begin > at:
            raise _corrupt("its length does not match its parts")
        resting -= 1
        if not resting:
            resting = SLICE
            yield None
    if at != size:
        raise _corrupt("data follows the last record")
    return None


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"A record is corrupt: {why}")
