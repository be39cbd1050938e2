"""Batches that say one thing in their header and another in their records, with a good CRC."""

from collections.abc import Mapping
from typing import Any

from broker.records.build import NewRecord, build_batch
from broker.records.header import (
    CRC,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    header_at,
)
from broker.records.validate import crc32c
from broker.records.varint import write_varint

TIME = 1_700_000_000_000


def with_header(batch: bytes | bytearray | memoryview, **fields: int) -> bytearray:
    """The same with other fields of BatchHeader; the length and the CRC are right unless they are given."""
    made = bytearray(batch)
    known: Mapping[str, Any] = {"length": len(made) - LENGTH_OVERHEAD} | fields
    HEADER.pack_into(made, 0, *header_at(made)._replace(**known))
    if "crc" not in fields:
        CRC.pack_into(made, CRC_AT, crc32c(made[CRC_FROM:]))
    return made


def recounted(batch: bytes | bytearray | memoryview, count: int) -> bytearray:
    """The same batch, whose header says that it has `count` records."""
    return with_header(batch, record_count=count, last_offset_delta=count - 1)


def packed_as(body: bytes, codec: int, count: int, **fields: int) -> bytearray:
    """A batch with `body` behind its header, which says that it is compressed with `codec`."""
    empty = build_batch([NewRecord(None, None, TIME)])[:HEADER_BYTES]
    named = {"attributes": codec, "record_count": count, "last_offset_delta": count - 1}
    return with_header(bytes(empty) + body, **(named | fields))


def varint(value: int) -> bytes:
    into = bytearray()
    write_varint(value, into)
    return bytes(into)


def record(
    offset: int = 0,
    *,
    delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    """One record as it lies in a batch. `headers` begins with their count; `length` is said in place of the
    right one.
    """
    body = b"\0" + varint(delta) + varint(offset)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += headers
    return varint(len(body) if length is None else length) + body


def is_whole(batch: bytes | bytearray | memoryview) -> bool:
    """Return whether the buffer is one batch with a valid CRC; never raises."""
    if len(batch) < HEADER_BYTES:
        return False
    header = header_at(batch)
    return (
        header.size == len(batch)
        and header.magic == MAGIC
        and header.last_offset_delta >= 0
        and bool(crc32c(memoryview(batch)[CRC_FROM:]) == header.crc)
    )
