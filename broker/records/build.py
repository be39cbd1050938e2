"""Builds batches of records that the broker writes itself: group offsets, events.

Called by the services with an internal topic. The batch looks like a producer's: its base offset is 0, and
PartitionLog.stage patches it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from broker.records.compression import Codec, compress
from broker.records.header import (
    CRC,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from broker.records.varint import write_varint


class NewRecord(NamedTuple):
    """Time in ms since the epoch. A value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def build_batch(
    new: Sequence[NewRecord],
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> memoryview:
    """Build a batch of at least one record as a writable view; `attributes` are flags besides the codec."""
    base_timestamp = new[0].timestamp
    batch = bytearray(HEADER_BYTES)
    body = batch if codec is Codec.NONE else bytearray()
    for delta, each in enumerate(new):
        value = b"" if each.value is None else each.value
        head = bytearray(1)
        write_varint(each.timestamp - base_timestamp, head)
        write_varint(delta, head)
        _write_nullable(each.key, head)
        write_varint(-1 if each.value is None else len(value), head)
        tail = _headers(each) if each.headers else _NO_HEADERS
        write_varint(len(head) + len(value) + len(tail), body)
        body += head
        body += value  # a group's record may have a megabyte, which is copied here only
        body += tail
    if body is not batch:
        batch += compress(codec, body)
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_OVERHEAD,
        -1,
        MAGIC,
        0,
        attributes | codec,
        len(new) - 1,
        base_timestamp,
        max(each.timestamp for each in new),
        producer_id,
        producer_epoch,
        base_sequence,
        len(new),
    )
    view = memoryview(batch)
    CRC.pack_into(view, CRC_AT, crc32c(view[CRC_FROM:]))
    return view


_NO_HEADERS = b"\0"


def _headers(record: NewRecord) -> bytearray:
    headers = bytearray()
    write_varint(len(record.headers), headers)
    for name, value in record.headers:
        _write_nullable(name.encode(), headers)
        _write_nullable(value, headers)
    return headers


def _write_nullable(data: bytes | None, into: bytearray) -> None:
    if data is None:
        write_varint(-1, into)
    else:
        write_varint(len(data), into)
        into += data
