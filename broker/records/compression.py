"""The four codecs of record batches, in the framings that Kafka's clients write, with a bound on what comes
out.

Called by `walk` and `build`, and for compressed payloads of clients. Knows no record. The native codecs are
imported when they are first needed: most brokers only ever pass compressed batches on.
"""

import mmap
import zlib
from enum import IntEnum
from typing import Final

from broker.errors import ApiError, ErrorCode
from broker.records.header import Buffer

DEFAULT_LIMIT: Final = 67_108_864
"""Bytes that one batch may unpack to; ours. Kafka unpacks as a stream and has none."""

MAX_RATIO: Final = 1_032
"""What deflate can reach at most. Beyond `_HARMLESS` bytes, more than this is taken for an attack; ours."""

_HARMLESS: Final = 16_777_216

_GZIP_CHUNK: Final = 16_384
_GZIP_PIECE: Final = 1_048_576

_ON_HEAP: Final = 1_048_576
"""Output buffers beyond this are mapped: `bytearray` zeroes every page with the interpreter held, 38 ms for
64 MiB here, and giving 4 KiB pages back takes 6 ms."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK: Final = 32_768

_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Independent blocks of 64 kB without checksums: Java's reader refuses dependent ones."""
_LZ4_BLOCK: Final = 65_536
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = bytes(4)


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(codec: int, data: Buffer, *, limit: int = DEFAULT_LIMIT) -> Buffer:
    """Raises ApiError: CORRUPT_MESSAGE, RECORD_LIST_TOO_LARGE (more than `limit` bytes, or an absurd ratio),
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    if codec == Codec.NONE:
        return data
    most = min(limit, max(_HARMLESS, MAX_RATIO * len(data)))
    if codec == Codec.GZIP:
        return _gunzip(data, most)
    if codec == Codec.SNAPPY:
        return _unsnap(data, most)
    if codec in (Codec.LZ4, Codec.ZSTD):
        return _unframe(codec, data, most)
    raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {codec}")


def compress(codec: int, data: Buffer) -> Buffer:
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return zlib.compress(data, wbits=31)
    import cramjam

    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data))
    view = memoryview(data)
    if codec == Codec.SNAPPY:
        framed = bytearray(_XERIAL_HEADER)
        for at in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
            framed += len(block).to_bytes(4, "big") + block
        return framed
    framed = bytearray(_LZ4_HEADER)
    for at in range(0, len(view), _LZ4_BLOCK):
        plain = view[at : at + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            framed += len(block).to_bytes(4, "little") + block
        else:
            framed += (len(plain) | _LZ4_STORED).to_bytes(4, "little") + plain
    return framed + _LZ4_END


def _gunzip(data: Buffer, most: int) -> Buffer:
    """Members follow one another, as gzip allows. Nothing longer than a chunk is copied at once, so that the
    interpreter is never held for long where this runs in a thread.
    """
    unpacked = _Unpacked(most)
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
                        raise _corrupt("gzip data ends early")
                # One byte more than may come out.
                unpacked.append(member.decompress(left, min(_GZIP_PIECE, most + 1 - unpacked.size)))
                if unpacked.size > most:
                    raise _too_large(most)
            at -= len(member.unused_data)
    except zlib.error as error:
        raise _corrupt(str(error)) from error
    return unpacked.whole()


def _unsnap(data: Buffer, most: int) -> Buffer:
    """Java and most clients write xerial's framing of blocks, librdkafka a single raw block."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnap_block(view, most)
    unpacked = _Unpacked(most)
    at = len(_XERIAL_HEADER)
    while at < len(view):
        start = at + 4
        end = start + int.from_bytes(view[at:start], "big")
        if end > len(view) or end == start:
            raise _corrupt("a snappy block is longer than what is left")
        unpacked.append(_unsnap_block(view[start:end], most - unpacked.size))
        at = end
    return unpacked.whole()


def _unsnap_block(block: memoryview, room: int) -> Buffer:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > room:
            raise _too_large(room)
        unpacked = _output(size)
        if size:
            cramjam.snappy.decompress_raw_into(block, unpacked)
        return unpacked
    except cramjam.DecompressionError as error:
        raise _corrupt(str(error)) from error


def _unframe(codec: int, data: Buffer, most: int) -> Buffer:
    """Frames need not say how much comes out, so room is offered in growing amounts."""
    import cramjam

    unpack = cramjam.zstd.decompress_into if codec == Codec.ZSTD else cramjam.lz4.decompress_into
    room = min(most, max(65_536, 8 * len(data)))
    while True:
        # One byte more than may come out: the codec fails both for too little room and for corrupt data.
        unpacked = _output(room + 1)
        try:
            size = unpack(data, unpacked)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise _corrupt(str(error)) from error
            size = room + 1
        if size <= room:
            return memoryview(unpacked)[:size]
        if room == most:
            raise _too_large(most)
        room = min(most, 8 * room)


class _Unpacked:
    """What comes out piece by piece, `most` bytes and one more at most. Beyond `_ON_HEAP` bytes it is mapped
    once for as many as may come: a growing `bytearray` copies all that it has, with the interpreter held, 14
    ms for 64 MiB here. Pages that nothing is written to cost nothing.
    """

    def __init__(self, most: int) -> None:
        self._most = most
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
            self._large = _output(max(self._most + 1, size))
            self._large[: self.size] = self._small
            self._large[self.size : size] = piece
        self.size = size

    def whole(self) -> Buffer:
        return self._small if self._large is None else memoryview(self._large)[: self.size]


def _output(size: int) -> bytearray | memoryview:
    """Writable bytes. Large ones are zeroed by the kernel, page by page, while the codec writes them."""
    if size <= _ON_HEAP:
        return bytearray(size)
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapped)


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"The batch cannot be unpacked: {why}")


def _too_large(most: int) -> ApiError:
    return ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"The batch unpacks to more than {most} bytes")
