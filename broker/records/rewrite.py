"""Modifies accepted batches in place.

Called by PartitionLog, which writes the offset and the epoch itself because the CRC does not cover them.
"""

from struct import Struct

from crc32c import crc32c

from broker.records.header import APPEND_TIME_FLAG, ATTRIBUTES_AT, CRC, CRC_AT, CRC_FROM, MAX_TIMESTAMP_AT

_TIMESTAMP = Struct(">q")


def stamp_append_time(batch: memoryview, now_wall_ms: int) -> None:
    """Set the broker's time on all records (message.timestamp.type=LogAppendTime) and update the CRC."""
    batch[ATTRIBUTES_AT + 1] |= APPEND_TIME_FLAG
    stamp_max_timestamp(batch, now_wall_ms)


def stamp_max_timestamp(batch: memoryview, timestamp: int) -> None:
    """Set the largest timestamp in the header and update the CRC."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))
