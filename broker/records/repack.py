"""Compresses a batch with another codec (compression.type of a topic; Kafka's LogValidator).

Called by PartitionLog.inspect after the records were checked. Only the codec, the length and the CRC of the
header change, and the records keep their bytes.
"""

from crc32c import crc32c

from broker.common.slices import Slices
from broker.records.compression import compress
from broker.records.header import (
    CODEC_MASK,
    CRC,
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    header_at,
)
from broker.records.thread_work import Pack
from broker.records.walk import UNPACKED_AT_ONCE, unpacked


def repacked(batch: memoryview, codec: int, level: int | None) -> Slices[memoryview]:
    """Return the batch compressed with `codec`, as a writable view of its own.

    Raises ApiError as `decompress`.
    """
    header = header_at(batch)
    plain = yield from unpacked(batch)
    if len(plain) <= UNPACKED_AT_ONCE:
        packed = compress(codec, plain, level)
    else:
        pack = Pack(codec, plain, level)
        yield pack
        packed = pack.data
    made = bytearray(HEADER_BYTES)
    made += packed
    attributes = header.attributes & ~CODEC_MASK | codec
    HEADER.pack_into(made, 0, *header._replace(length=len(made) - LENGTH_OVERHEAD, attributes=attributes))
    view = memoryview(made)
    CRC.pack_into(view, CRC_AT, crc32c(view[CRC_FROM:]))
    return view
