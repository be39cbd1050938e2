"""What the broker changes in a batch that it takes, where it lies.

Called by PartitionLog. The offset and the epoch are outside of the CRC and are written there directly.
"""

from struct import Struct

from crc32c import crc32c

from broker.records.header import APPEND_TIME_FLAG, ATTRIBUTES_AT, CRC, CRC_AT, CRC_FROM, MAX_TIMESTAMP_AT

_TIMESTAMP = Struct(">q")


def stamp_append_time(batch: memoryview, now_wall_ms: int) -> None:
    """All records get the broker's time (message.timestamp.type=LogAppendTime); the CRC is computed anew."""
    batch[ATTRIBUTES_AT + 1] |= APPEND_TIME_FLAG
    stamp_max_timestamp(batch, now_wall_ms)


def stamp_max_timestamp(batch: memoryview, timestamp: int) -> None:
    """The header tells this as the largest timestamp of the records; the CRC is computed anew."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    CRC.pack_into(batch, CRC_AT, crc32c(batch[CRC_FROM:]))
