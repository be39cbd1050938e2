"""Decompresses the records of a batch and compresses them with another codec, in a thread if that may take
tens of milliseconds.

Called where records are read in slices: it yields the work for a thread to its caller (broker.common.slices).
PartitionLog.inspect calls `repacked` for a topic's compression.type. Independent of tasks and clocks.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.records.compression import Codec, compress, decompress
from broker.records.header import CODEC_MASK, HEADER_BYTES, Buffer, batch_of, header_at

_PACKED_AT_ONCE: Final = 16_384
UNPACKED_AT_ONCE: Final = 65_536
"""A batch within both limits is decompressed without a thread, in less than 0.3 ms; our own limit."""


class CodecWork:
    """A decompression or compression, which any thread can run; `run` sets `data` to its result."""

    __slots__ = ("_work", "data")

    def __init__(self, work: Callable[[], Buffer]) -> None:
        self._work = work
        self.data: Buffer = b""

    def run(self) -> None:
        """Raises ApiError as `decompress`."""
        self.data = self._work()


def unpacked(batch: Buffer) -> Slices[Buffer]:
    """Return the bytes of a batch's records, decompressed. Raises ApiError as `decompress`."""
    codec = header_at(batch).codec
    packed = memoryview(batch)[HEADER_BYTES:]
    if codec == Codec.NONE:
        return packed
    if len(packed) <= _PACKED_AT_ONCE:
        try:
            return decompress(codec, packed, limit=UNPACKED_AT_ONCE)
        except ApiError as error:
            if error.code != ErrorCode.RECORD_LIST_TOO_LARGE:
                raise
    work = CodecWork(partial(decompress, codec, packed))
    yield work
    return work.data


def repacked(batch: memoryview, codec: int, level: int | None) -> Slices[memoryview]:
    """Return the batch compressed with `codec`, as a writable view of its own. (Kafka: LogValidator)

    Only the codec, the length and the CRC of the header change, and the records keep their bytes. Raises
    ApiError as `decompress`.
    """
    header = header_at(batch)
    plain = yield from unpacked(batch)
    if len(plain) <= UNPACKED_AT_ONCE:
        packed = compress(codec, plain, level)
    else:
        work = CodecWork(partial(compress, codec, plain, level))
        yield work
        packed = work.data
    return memoryview(batch_of(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed))
