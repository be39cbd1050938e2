"""The four codecs of record batches, in the framings of Kafka's clients, with a size limit.

Called by `walk`, `packing`, `inspect` and `build`, and for compressed client payloads. Decompression stops at
a limit. Independent of records. The native codecs are imported on first use, because most brokers never
decompress a batch.
"""

import mmap
import zlib
from enum import IntEnum
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.records.header import Buffer

DEFAULT_LIMIT: Final = 67_108_864
"""Decompressed bytes of one batch; our own limit. Kafka decompresses as a stream without a limit."""

MAX_RATIO: Final = 1_032
"""The highest ratio that deflate can reach.

Beyond `_HARMLESS` bytes, a higher ratio counts as an attack; our own limit.
"""

_HARMLESS: Final = 16_777_216

_GZIP_CHUNK: Final = 16_384
_GZIP_PIECE: Final = 1_048_576

_ON_HEAP: Final = 1_048_576
"""Larger output buffers are memory-mapped.

`bytearray` zeroes every page while it holds the interpreter, 38 ms for 64 MiB here, and freeing 4 KiB pages
takes 6 ms.
"""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK: Final = 32_768

_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Independent blocks of 64 kB without checksums, because Java's reader refuses dependent blocks."""
_LZ4_BLOCK: Final = 65_536
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = bytes(4)

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SHORTEST_HEADER: Final = 7
"""Bytes of the shortest frame header: magic, flags, block size, checksum."""
_LZ4_VERSION: Final = 0xC0
_LZ4_VERSION_1: Final = 0x40
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUMS: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_RESERVED: Final = 0x03

MAX_LZ4_BLOCKS: Final = 4_096
"""Blocks of a frame; our own limit. Clients write blocks of at least 64 KiB, so 64 MiB are 1,024 blocks."""


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS: Final = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's default levels; -1 is that of zlib. LZ4's is the fast compressor, as in Kafka; others are
slower.
"""


def decompress(codec: int, data: Buffer, *, limit: int = DEFAULT_LIMIT) -> Buffer:
    """Decompress `data`.

    Raises ApiError: CORRUPT_MESSAGE, RECORD_LIST_TOO_LARGE (more than `limit` bytes, or an absurd ratio),
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    if codec == Codec.NONE:
        return data
    max_bytes = min(limit, max(_HARMLESS, MAX_RATIO * len(data)))
    if codec == Codec.GZIP:
        return _gunzip(data, max_bytes)
    if codec == Codec.SNAPPY:
        return _unsnap(data, max_bytes)
    if codec in (Codec.LZ4, Codec.ZSTD):
        return _unframe(codec, data, max_bytes)
    raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {codec}")


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data`; `level` None: the codec's default. Snappy has no levels."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return zlib.compress(data, DEFAULT_LEVELS[Codec.GZIP] if level is None else level, wbits=31)
    import cramjam

    if codec == Codec.ZSTD:
        return bytes(
            cramjam.zstd.compress(data, level=DEFAULT_LEVELS[Codec.ZSTD] if level is None else level)
        )
    view = memoryview(data)
    if codec == Codec.SNAPPY:
        framed = bytearray(_XERIAL_HEADER)
        for at in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
            framed += len(block).to_bytes(4, "big") + block
        return framed
    framed = bytearray(_LZ4_HEADER)
    is_fast = level is None or level == DEFAULT_LEVELS[Codec.LZ4]
    for at in range(0, len(view), _LZ4_BLOCK):
        plain = view[at : at + _LZ4_BLOCK]
        if is_fast:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(plain):
            framed += len(block).to_bytes(4, "little") + block
        else:
            framed += (len(plain) | _LZ4_STORED).to_bytes(4, "little") + plain
    return framed + _LZ4_END


def check_framing(codec: int, packed: memoryview) -> None:
    """Check that Kafka's clients can read the LZ4 framing of a batch, without decompressing it.

    The codecs here accept more than Kafka's: they decompress dependent LZ4 blocks, which Kafka's
    Lz4BlockInputStream refuses, and continue with a second LZ4 frame, which it ignores. Raises ApiError
    CORRUPT_MESSAGE for an LZ4 frame that Kafka's consumers refuse, and for any data after it.
    Takes about a microsecond, and at most half a millisecond.
    """
    if codec != Codec.LZ4:
        return
    if len(packed) < _LZ4_SHORTEST_HEADER or bytes(packed[:4]) != _LZ4_MAGIC:
        raise _corrupt("the LZ4 frame header is missing")
    flags = packed[4]
    if flags & _LZ4_VERSION != _LZ4_VERSION_1 or flags & _LZ4_RESERVED:
        raise _corrupt("unsupported LZ4 frame flags")
    if not flags & _LZ4_INDEPENDENT:
        raise _corrupt("dependent LZ4 blocks are not supported")
    at = _LZ4_SHORTEST_HEADER + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    behind_block = 4 if flags & _LZ4_BLOCK_CHECKSUMS else 0
    for _ in range(MAX_LZ4_BLOCKS + 1):
        size = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if not size:
            break
        at += (size & ~_LZ4_STORED) + behind_block
    else:
        raise _corrupt(f"the LZ4 frame has more than {MAX_LZ4_BLOCKS} blocks")
    if flags & _LZ4_CONTENT_CHECKSUM:
        at += 4
    if at != len(packed):
        raise _corrupt("the LZ4 frame does not end at the end of the batch")


def _gunzip(data: Buffer, max_bytes: int) -> Buffer:
    """Decompress gzip data, which may have several members.

    No copy is longer than a chunk, so that a thread never holds the interpreter for long.
    """
    unpacked = _Unpacked(max_bytes)
    view = memoryview(data)
    at = 0
    try:
        while at < len(view):
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                left: Buffer = member.unconsumed_tail
                if not left:
                    left = view[at : at + _GZIP_CHUNK]
                    at += len(left)
                    if not left:
                        raise _corrupt("truncated gzip data")
                # One byte above the limit, to detect an excess.
                unpacked.append(member.decompress(left, min(_GZIP_PIECE, max_bytes + 1 - unpacked.size)))
                if unpacked.size > max_bytes:
                    raise _too_large(max_bytes)
            at -= len(member.unused_data)
    except zlib.error as error:
        raise _corrupt(str(error)) from error
    return unpacked.whole()


def _unsnap(data: Buffer, max_bytes: int) -> Buffer:
    """Decompress xerial's framing of blocks (Java and most clients) or a single raw block (librdkafka)."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnap_block(view, max_bytes)
    unpacked = _Unpacked(max_bytes)
    at = len(_XERIAL_HEADER)
    while at < len(view):
        start = at + 4
        end = start + int.from_bytes(view[at:start], "big")
        if end > len(view) or end == start:
            raise _corrupt("a snappy block exceeds the data")
        unpacked.append(_unsnap_block(view[start:end], max_bytes - unpacked.size))
        at = end
    return unpacked.whole()


def _unsnap_block(block: memoryview, capacity: int) -> Buffer:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > capacity:
            raise _too_large(capacity)
        unpacked = _output(size)
        if size:
            cramjam.snappy.decompress_raw_into(block, unpacked)
        return unpacked
    except cramjam.DecompressionError as error:
        raise _corrupt(str(error)) from error


def _unframe(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """Decompress a frame into growing buffers, because a frame need not state its decompressed size."""
    import cramjam

    unpack = cramjam.zstd.decompress_into if codec == Codec.ZSTD else cramjam.lz4.decompress_into
    capacity = min(max_bytes, max(65_536, 8 * len(data)))
    while True:
        # One byte above the limit: the codec raises the same error for a small buffer and for corrupt data.
        unpacked = _output(capacity + 1)
        try:
            size = unpack(data, unpacked)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise _corrupt(str(error)) from error
            size = capacity + 1
        if size <= capacity:
            return memoryview(unpacked)[:size]
        if capacity == max_bytes:
            raise _too_large(max_bytes)
        capacity = min(max_bytes, 8 * capacity)


class _Unpacked:
    """Collects decompressed chunks, at most `max_bytes` + 1 bytes.

    Beyond `_ON_HEAP` bytes the buffer is mapped once with the maximum size: a growing `bytearray` copies its
    content while it holds the interpreter, 14 ms for 64 MiB here. Untouched pages cost nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._small = bytearray()
        self._large: bytearray | memoryview | None = None
        self.size = 0

    def append(self, piece: Buffer) -> None:
        size = self.size + len(piece)
        if self._large is not None:
            self._large[self.size : size] = piece
        elif size <= _ON_HEAP:
            self._small += piece
        else:
            self._large = _output(max(self._max_bytes + 1, size))
            self._large[: self.size] = self._small
            self._large[self.size : size] = piece
        self.size = size

    def whole(self) -> Buffer:
        return self._small if self._large is None else memoryview(self._large)[: self.size]


def _output(size: int) -> bytearray | memoryview:
    """Return a writable buffer; the kernel zeroes the pages of a large one as the codec writes them."""
    if size <= _ON_HEAP:
        return bytearray(size)
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapped)


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"The batch cannot be decompressed: {why}")


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"The decompressed batch exceeds {max_bytes} bytes")
