"""Reads the keys of a batch, to note them in the offset map and to select the records that remain, and writes
the batch without the others (Kafka's Cleaner.buildOffsetMapForSegment and shouldRetainRecord).

Called by `cleaning` with decompressed records, in a thread.
"""

from typing import NamedTuple

from broker.log.cleaner.offset_map import OffsetMap
from broker.log.cleaner.pace import Pace
from broker.records.compression import compress
from broker.records.header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    batch_of,
)
from broker.records.varint import read_int, read_varint, write_varint
from broker.records.walk import corrupt_record


class Retained(NamedTuple):
    """The records of a batch that remain.

    `spans` are start and end positions of runs of records, and `retained` is their number; `largest` is the
    greatest timestamp less the batch's base. `keyless` counts records without a key, which are always
    removed.
    """

    spans: list[tuple[int, int]]
    retained: int
    largest: int
    has_tombstones: bool
    keyless: int


def note_keys(header: BatchHeader, data: bytes, first_offset: int, offsets: OffsetMap, pace: Pace) -> bool:
    """Put the keys of the records from `first_offset` on into the map. Return False if it has no room for
    one.

    Raises ApiError CORRUPT_MESSAGE.
    """
    at, size, base = 0, len(data), header.base_offset
    for _ in range(header.record_count):
        length, at = read_int(data, at)
        end = at + length
        if length < 0 or end > size:
            raise corrupt_record("its length exceeds the batch")
        _, at = read_varint(data, at + 1)
        delta, at = read_int(data, at)
        key_length, at = read_int(data, at)
        offset = base + delta
        if key_length >= 0 and offset >= first_offset and not offsets.put(data[at : at + key_length], offset):
            return False
        at = end
        pace.step()
    return True


def select(header: BatchHeader, data: bytes, offsets: OffsetMap, now_wall_ms: int, pace: Pace) -> Retained:
    """Return the records that are the last of their key, or that the map does not cover.

    A tombstone goes once the batch's delete horizon is reached. Raises ApiError CORRUPT_MESSAGE.
    """
    horizon_ms = header.delete_horizon_ms
    drops_tombstones = horizon_ms is not None and now_wall_ms >= horizon_ms
    end_offset, base, size = offsets.end_offset, header.base_offset, len(data)
    spans: list[tuple[int, int]] = []
    run_start = run_end = -1
    at = count = keyless = 0
    largest: int | None = None
    has_tombstones = False
    for _ in range(header.record_count):
        start = at
        length, at = read_int(data, at)
        end = at + length
        if length < 0 or end > size:
            raise corrupt_record("its length exceeds the batch")
        timestamp, at = read_varint(data, at + 1)
        delta, at = read_int(data, at)
        key_length, at = read_int(data, at)
        key = data[at : at + key_length] if key_length >= 0 else None
        value_length, _ = read_int(data, at + max(key_length, 0))
        if base + delta >= end_offset:
            remains = True
        elif key is None:
            remains = False
            keyless += 1
        else:
            remains = base + delta >= offsets.get(key) and (value_length >= 0 or not drops_tombstones)
        if remains:
            count += 1
            if largest is None or timestamp > largest:
                largest = timestamp
            if value_length < 0:
                has_tombstones = True
            if start == run_end:
                run_end = end
            else:
                if run_end >= 0:
                    spans.append((run_start, run_end))
                run_start, run_end = start, end
        at = end
        pace.step()
    if run_end >= 0:
        spans.append((run_start, run_end))
    return Retained(spans, count, 0 if largest is None else largest, has_tombstones, keyless)


def rewritten(
    header: BatchHeader, data: bytes, retained: Retained, horizon_ms: int | None, pace: Pace
) -> bytearray:
    """Return the batch with the retained records of its decompressed `data`. (Kafka: MemoryRecords.filterTo)

    Base offset, last offset and base sequence stay, so offsets and the state of producers do not change. A
    record keeps its bytes, unless the batch gets a delete horizon now, `horizon_ms`: then the base timestamp
    becomes the horizon, and every timestamp is written relative to it (KIP-534). With None it keeps its own
    horizon, or none.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    body = b"".join([data[start:end] for start, end in retained.spans])
    pace.copied(2 * len(body))
    if horizon_ms is not None:
        body = _shifted(body, base_timestamp - horizon_ms, pace)
        attributes |= DELETE_HORIZON_FLAG
    max_timestamp = header.max_timestamp
    if not header.uses_append_time:
        max_timestamp = base_timestamp + retained.largest
    new = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp if horizon_ms is None else horizon_ms,
        max_timestamp=max_timestamp,
        record_count=retained.retained,
    )
    compressed = bytes(compress(header.codec, body))
    pace.copied(len(body))
    batch = batch_of(new, compressed)
    pace.copied(2 * len(batch))
    return batch


def emptied(header: BatchHeader) -> bytearray:
    """Return the batch without records, which only keeps the last sequence of its producer and its last
    offset.
    """
    kept = APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
    new = header._replace(
        attributes=header.attributes & kept & ~CODEC_MASK, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return batch_of(new, b"")


def _shifted(body: bytes, ahead_ms: int, pace: Pace) -> bytes:
    """Add `ahead_ms` to the timestamp delta of every record."""
    shifted = bytearray()
    at = 0
    while at < len(body):
        length, at = read_int(body, at)
        end = at + length
        delta, rest_at = read_varint(body, at + 1)
        record = bytearray(body[at : at + 1])
        write_varint(delta + ahead_ms, record)
        record += body[rest_at:end]
        write_varint(len(record), shifted)
        shifted += record
        at = end
        pace.step()
    return bytes(shifted)
