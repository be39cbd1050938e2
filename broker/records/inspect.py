"""Reads every record of a batch, to validate the records or to find the first record from a timestamp on.

Called by PartitionLog for the batches that `record.validation` selects and for topics whose other configs
need the records; `validate` checks other batches by their header alone. Follows Kafka's LogValidator and
DefaultRecord. Works in slices, because a batch may have hundreds of thousands of records. Keys, values and
headers are skipped without copying.
"""

from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode, RecordsRefused
from broker.common.slices import SLICE, Slices
from broker.records.compression import check_framing
from broker.records.header import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, Buffer, header_at
from broker.records.packing import unpacked
from broker.records.varint import read_int, read_varint
from broker.records.walk import corrupt_record

AT_ONCE: Final = 256
"""Records of a batch that are read before the first yield, so that a small batch never waits; ours."""

_COPIED: Final = 1_048_576
"""Bytes of records that are copied first, because `bytes` are read 10 % faster than views; our own limit."""

UNBOUNDED: Final = 1 << 70
"""Beyond every timestamp, on either side of 0."""

UNLIMITED_RECORD: Final = 2_147_483_639
"""The default of `max.decompressed.message.bytes`, which no batch reaches."""

LONGEST_PLAIN: Final = 8_191
"""Bytes of a plain record, at most."""

MAX_NAMED_RECORDS: Final = 1_000
"""Records that a response names, at most; ours. A batch may have a quarter of a million."""

_SHOWN: Final = 3


class RecordRules(NamedTuple):
    """The record rules of a topic, times in ms.

    `max_parts` limits the records and their headers together, `max_record_bytes` each record of a compressed
    batch, as Kafka counts it: without its length. A record without a timestamp (-1) is never too early.
    """

    keys_needed: bool
    earliest_ms: int
    latest_ms: int
    max_parts: int
    max_record_bytes: int = UNLIMITED_RECORD


def check_records(batch: Buffer, rules: RecordRules) -> Slices[int]:
    """Return the largest timestamp of the records of a batch that passed `validate.check_batch`.

    Raises RecordsRefused: INVALID_RECORD (no key), INVALID_TIMESTAMP (before `earliest_ms` or after
    `latest_ms`). Raises ApiError: INVALID_RECORD (offsets that do not increase by one, data that its codec
    cannot decompress, another number of records than in the header, a record whose length does not match its
    parts, or that is too long), MESSAGE_TOO_LARGE (too many parts), RECORD_LIST_TOO_LARGE.
    """
    try:
        return (yield from _check_records(batch, rules))
    except ApiError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        # The CRC matched, so the producer itself wrote this: it retries CORRUPT_MESSAGE, in vain.
        raise ApiError(ErrorCode.INVALID_RECORD, error.message) from error


def _check_records(batch: Buffer, rules: RecordRules) -> Slices[int]:
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
    most = rules.max_record_bytes if header.codec else UNLIMITED_RECORD
    at = done = 0
    largest = -UNBOUNDED
    resting = SLICE
    while done < count:
        stop = min(done + resting, count)
        before = done
        if most >= LONGEST_PLAIN:
            at, before, largest = pass_plain_records(
                data, at, done, stop, largest, base, least_delta, rules.keys_needed
            )
        resting -= before - done
        done = before
        if done < stop:
            at, end, delta, headers, is_refused = _check_record(data, at, done, base, rules, most)
            if is_refused:
                raise (yield from refusal_of_records(header, data, rules))
            largest = max(largest, delta)
            spare -= headers
            _check_parts(spare, rules)
            done += 1
            resting -= 1
            for _ in range(headers):
                name_length, at = read_int(data, at)
                if name_length < 0:
                    raise corrupt_record("a header key is null")
                value_length, at = read_int(data, at + name_length)
                if value_length > 0:
                    at += value_length
                if at > end:
                    raise corrupt_record("a header exceeds the record")
                resting -= 1
                if resting <= 0:
                    resting = SLICE
                    yield None
            if at != end:
                raise corrupt_record("its length does not match its parts")
        if resting <= 0:
            resting = SLICE
            yield None
    if at != size:
        raise corrupt_record("data follows the last record")
    if base + largest > rules.latest_ms:
        raise (yield from refusal_of_records(header, data, rules))
    return base + largest


def pass_plain_records(
    data: Buffer, at: int, done: int, stop: int, largest: int, base: int, least_delta: int, keys_needed: bool
) -> tuple[int, int, int]:
    """Skip records `done` to `stop` (exclusive) from position `at`, up to the first that is not plain.

    An optimisation only: it accepts nothing that `_check_record` would refuse, with as few interpreter steps
    as possible. A plain record has no headers, at most 8 KiB, and an offset delta of at most three bytes. One
    takes a third of the time that reading it with `varint` takes.

    Returns the position, the number of the next record, and the largest timestamp delta so far, including
    `largest`.
    """
    # Every number is a zigzag varint: its lowest bit is the sign, and bit 7 of a byte marks a continuation.
    begin = at
    number = done
    try:
        for number in range(done, stop):
            begin = at
            length = data[at]
            if length < 0x80:
                at += 2
            else:
                byte = data[at + 1]
                if byte >= 0x80:
                    return begin, number, largest
                length = length & 0x7F | byte << 7
                at += 3
            end = at + (length >> 1) - 1
            delta = data[at]
            at += 1
            if delta >= 0x80:
                delta &= 0x7F
                shift = 7
                while (byte := data[at]) >= 0x80:
                    delta |= (byte & 0x7F) << shift
                    shift += 7
                    at += 1
                    if shift > 42:
                        return begin, number, largest
                delta |= byte << shift
                at += 1
            delta = -(delta + 1 >> 1) if delta & 1 else delta >> 1
            offset = data[at]
            at += 1
            if offset >= 0x80:
                byte = data[at]
                at += 1
                offset = offset & 0x7F | (byte & 0x7F) << 7
                if byte >= 0x80:
                    byte = data[at]
                    if byte >= 0x80:
                        return begin, number, largest
                    offset |= byte << 14
                    at += 1
            key = data[at]
            at += 1
            if key >= 0x80:
                byte = data[at]
                if byte >= 0x80:
                    return begin, number, largest
                key = key & 0x7F | byte << 7
                at += 1
            if not key & 1:
                at += key >> 1
            elif keys_needed:
                return begin, number, largest
            value = data[at]
            at += 1
            if value >= 0x80:
                byte = data[at]
                if byte >= 0x80:
                    return begin, number, largest
                value = value & 0x7F | byte << 7
                at += 1
            if not value & 1:
                at += value >> 1
            if (
                data[at]  # it has headers
                or at + 1 != end
                or length & 1
                or offset != number + number
                or (delta < least_delta and base + delta != NO_TIMESTAMP)
            ):
                return begin, number, largest
            at = end
            if delta > largest:
                largest = delta
    except IndexError:
        return begin, number, largest
    return at, stop, largest


def _check_record(
    data: Buffer, at: int, expected: int, base: int, rules: RecordRules, most: int
) -> tuple[int, int, int, int, bool]:
    """Return the position of the headers, the end, the timestamp less `base`, the number of headers, and
    whether the rules refuse the record.
    """
    length, start = read_int(data, at)
    end = start + length
    if length < 0 or end > len(data):
        raise corrupt_record("its length exceeds the batch")
    if length > most:
        raise ApiError(
            ErrorCode.INVALID_RECORD, f"A record has {length} bytes, more than max.decompressed.message.bytes"
        )
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
        raise corrupt_record("its parts exceed its length")
    if offset_delta != expected:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Inner record offsets are not incremental: expected {expected}, got {offset_delta}",
        )
    is_early = base + delta < rules.earliest_ms and base + delta != NO_TIMESTAMP
    return at, end, delta, headers, is_early or (rules.keys_needed and key_length < 0)


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
            raise corrupt_record("its length exceeds the batch")
        delta, begin = read_varint(data, begin + 1)
        if delta >= least_delta:
            offset_delta, begin = read_varint(data, begin)
            if offset_delta >= least_offset:
                return header.base_offset + offset_delta, header.base_timestamp + delta
        if begin > at:
            raise corrupt_record("its length does not match its parts")
        resting -= 1
        if not resting:
            resting = SLICE
            yield None
    if at != size:
        raise corrupt_record("data follows the last record")
    return None


def refusal_of_records(header: BatchHeader, data: Buffer, rules: RecordRules) -> Slices[RecordsRefused]:
    """Return the refusal of a batch with the decompressed records `data`: the whole batch is refused, and the
    producer learns which of its records are the reason. (KIP-467; Kafka: LogValidator.processRecordErrors)

    Its code is INVALID_TIMESTAMP if a record has a wrong timestamp, else INVALID_RECORD. Raises ApiError
    CORRUPT_MESSAGE.
    """
    named: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    count = at = 0
    for number in range(header.record_count):
        if number % SLICE == SLICE - 1:
            yield None
        length, at = read_int(data, at)
        end = at + length
        if length < 0 or end > len(data):
            raise corrupt_record("its length exceeds the batch")
        delta, at = read_varint(data, at + 1)
        _, at = read_int(data, at)
        key_length, _ = read_int(data, at)
        at = end
        timestamp = header.base_timestamp + delta
        is_early = timestamp < rules.earliest_ms and timestamp != NO_TIMESTAMP
        if rules.keys_needed and key_length < 0:
            why = "A compacted topic cannot accept a record without a key"
        elif is_early or timestamp > rules.latest_ms:
            code = ErrorCode.INVALID_TIMESTAMP
            why = f"Timestamp {timestamp} is not from {rules.earliest_ms} to {rules.latest_ms}"
        else:
            continue
        count += 1
        if len(named) < MAX_NAMED_RECORDS:
            named.append((number, why))
    return RecordsRefused(code, _summary(count, named), named)


def _summary(count: int, named: list[tuple[int, str]]) -> str:
    shown = "; ".join([f"record {index}: {why}" for index, why in named[:_SHOWN]])
    return f"{count} of the batch's records are refused, the first {min(count, _SHOWN)}: {shown}"
