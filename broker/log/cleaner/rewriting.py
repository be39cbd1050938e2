"""Writes a batch again without the records that are removed (Kafka's MemoryRecords.filterTo).

Called by `cleaning`, in a thread. Base offset, last offset and base sequence stay, so offsets and the state
of producers do not change. A record keeps its bytes, unless the batch gets a delete horizon: then the base
timestamp becomes the horizon, and every timestamp is written relative to it (KIP-534).
"""

from crc32c import crc32c

from broker.log.cleaner.pace import Pace
from broker.log.cleaner.selection import Retained
from broker.records.compression import compress
from broker.records.header import (
    APPEND_TIME_FLAG,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from broker.records.varint import read_int, read_varint, write_varint


def rewritten(
    header: BatchHeader, data: bytes, retained: Retained, horizon_ms: int | None, pace: Pace
) -> bytearray:
    """Return the batch with the retained records of its decompressed `data`.

    `horizon_ms`: the delete horizon that it gets now; with None it keeps its own, or none.
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
    batch = _batch(new, compressed)
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
    return _batch(new, b"")


def _batch(header: BatchHeader, body: bytes) -> bytearray:
    batch = bytearray(HEADER_BYTES) + body
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD))
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


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
