"""The 61-byte header of a record batch of version 2 (KIP-98, Kafka's DefaultRecordBatch).

Defines the layout, and patches the fields that the broker changes in accepted batches; `validate` has the
rules.

    base offset i64 | length i32 | leader epoch i32 | magic i8 | crc u32 | attributes i16 | last offset delta
    i32 | base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16 | base sequence i32 |
    count i32

`length` counts the bytes after it, so a batch has length + 12 bytes. The CRC covers everything from the
attributes on, so the broker can write the base offset and the leader epoch without updating it.
"""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
PREFIX: Final = Struct(">qii")
"""Base offset, length, leader epoch: the fields that the broker sets in an appended batch."""

EXTENT: Final = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta: the fields that a search by offset reads."""

CRC: Final = Struct(">I")
LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that its length does not count."""

MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
CODEC_AT: Final = ATTRIBUTES_AT + 1
MAX_TIMESTAMP_AT: Final = 35
_TIMESTAMP: Final = Struct(">q")
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
"""The base timestamp is the time from which on tombstones or the marker may be removed. (KIP-534)"""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class BatchHeader(NamedTuple):
    """A header with named fields, for code outside of hot paths. Times in ms."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def uses_append_time(self) -> bool:
        return self.attributes & APPEND_TIME_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones or the marker of the batch may be removed; None if that is not decided yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`. Raises struct.error if fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def codec_of(batch: Buffer) -> int:
    """Return the codec of an unchecked batch, or 0 if it is too short."""
    return batch[CODEC_AT] & CODEC_MASK if len(batch) >= HEADER_BYTES else 0


def stamp_append_time(batch: memoryview, now_wall_ms: int) -> None:
    """Set the broker's time on all records (message.timestamp.type=LogAppendTime) and update the CRC."""
    batch[ATTRIBUTES_AT + 1] |= APPEND_TIME_FLAG
    stamp_max_timestamp(batch, now_wall_ms)


def stamp_max_timestamp(batch: memoryview, timestamp: int) -> None:
    """Set the largest timestamp in the header and update the CRC."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))


def batch_of(header: BatchHeader, body: Buffer) -> bytearray:
    """Return the batch with this header, whose length and CRC are set, and these stored records."""
    batch = bytearray(HEADER_BYTES)
    batch += body
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD))
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch
