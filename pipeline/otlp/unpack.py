"""Decompresses a push to at most `MOST` bytes. For `decode`.

Supports the five codecs of KIP-714, in the framings that the Java client and librdkafka write.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import cramjam

MOST: Final = 8_388_608
"""Maximum decompressed bytes of a push: four times a broker's default limit."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_BUFFER: Final = bytearray(MOST + 1)
"""Reused, because a worker process decompresses one push after the other."""


class RefusedError(ValueError):
    """The reason why a payload cannot be used, for the quarantine."""


def unpack(compression: str | None, packed: bytes) -> bytes:
    """Decompress. Raises RefusedError for an unknown codec, invalid data, or more than `MOST` bytes."""
    codec = CODECS.get(compression or "")
    if codec is None:
        raise RefusedError("unknown compression")
    try:
        return codec(packed)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise RefusedError("does not unpack") from error


def _uncompressed(packed: bytes) -> bytes:
    return _bounded(packed)


def _decompress_gzip(packed: bytes) -> bytes:
    """Decompress all members; gzip allows several."""
    pieces: list[bytes] = []
    left, space = packed, MOST
    while left:
        member = zlib.decompressobj(wbits=31)
        pieces.append(member.decompress(left, space + 1))
        space -= len(pieces[-1])
        if space < 0:
            raise RefusedError("unpacks to too much")
        if not member.eof:
            raise RefusedError("does not unpack")
        left = member.unused_data
    return b"".join(pieces)


def _decompress_snappy(packed: bytes) -> bytes:
    """Decompress snappy: Java writes xerial's framing of blocks, librdkafka a single block."""
    if not packed.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(packed, MOST)
    pieces: list[bytes] = []
    at, space = _XERIAL_HEADER, MOST
    while at < len(packed):
        start = at + 4
        end = start + int.from_bytes(packed[at:start], "big")
        if not start < end <= len(packed):
            raise RefusedError("does not unpack")
        pieces.append(_decompress_snappy_block(packed[start:end], space))
        space -= len(pieces[-1])
        at = end
    return b"".join(pieces)


def _decompress_snappy_block(block: bytes, space: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > space:
        raise RefusedError("unpacks to too much")
    return bytes(cramjam.snappy.decompress_raw(block))


def _into_buffer(unpack_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes], bytes]:
    """Return a decompressor for a codec whose frames may lack the decompressed size."""

    def unpacked(packed: bytes) -> bytes:
        try:
            size = unpack_into(packed, _BUFFER)
        except cramjam.DecompressionError as error:
            if "write whole buffer" in str(error):
                raise RefusedError("unpacks to too much") from error
            raise
        return _bounded(bytes(memoryview(_BUFFER)[:size]))

    return unpacked


def _bounded(plain: bytes) -> bytes:
    if len(plain) > MOST:
        raise RefusedError("unpacks to too much")
    return plain


CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        "none": _uncompressed,
        "gzip": _decompress_gzip,
        "snappy": _decompress_snappy,
        "lz4": _into_buffer(cramjam.lz4.decompress_into),
        "zstd": _into_buffer(cramjam.zstd.decompress_into),
    }
)
