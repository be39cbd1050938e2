"""Unpacks what a client packed, and never more than `MOST` bytes of it. For `decode`.

The five ways are KIP-714's, in the framings that the Java client and librdkafka write. Knows no metrics.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import cramjam

MOST: Final = 8_388_608
"""Bytes that one push may unpack to: four times what a broker lets through by default."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_ROOM: Final = bytearray(MOST + 1)
"""Used again and again: a worker process unpacks one push after the other."""


class RefusedError(ValueError):
    """Why a payload cannot be used, in words for the quarantine."""


def unpack(compression: str | None, packed: bytes) -> bytes:
    """Raises RefusedError: an unknown way, damaged data, or more than `MOST` bytes of it."""
    way = WAYS.get(compression or "")
    if way is None:
        raise RefusedError("unknown compression")
    try:
        return way(packed)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise RefusedError("does not unpack") from error


def _as_it_is(packed: bytes) -> bytes:
    return _bounded(packed)


def _gunzip(packed: bytes) -> bytes:
    """Members follow one another, as gzip allows."""
    pieces: list[bytes] = []
    left, room = packed, MOST
    while left:
        member = zlib.decompressobj(wbits=31)
        pieces.append(member.decompress(left, room + 1))
        room -= len(pieces[-1])
        if room < 0:
            raise RefusedError("unpacks to too much")
        if not member.eof:
            raise RefusedError("does not unpack")
        left = member.unused_data
    return b"".join(pieces)


def _unsnap(packed: bytes) -> bytes:
    """Java writes xerial's framing of blocks, librdkafka a single block."""
    if not packed.startswith(_XERIAL_MAGIC):
        return _unsnap_block(packed, MOST)
    pieces: list[bytes] = []
    at, room = _XERIAL_HEADER, MOST
    while at < len(packed):
        start = at + 4
        end = start + int.from_bytes(packed[at:start], "big")
        if not start < end <= len(packed):
            raise RefusedError("does not unpack")
        pieces.append(_unsnap_block(packed[start:end], room))
        room -= len(pieces[-1])
        at = end
    return b"".join(pieces)


def _unsnap_block(block: bytes, room: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise RefusedError("unpacks to too much")
    return bytes(cramjam.snappy.decompress_raw(block))


def _into_room(unpack_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes], bytes]:
    """Of a codec whose frames need not say how much comes out."""

    def unpacked(packed: bytes) -> bytes:
        try:
            size = unpack_into(packed, _ROOM)
        except cramjam.DecompressionError as error:
            if "write whole buffer" in str(error):
                raise RefusedError("unpacks to too much") from error
            raise
        return _bounded(bytes(memoryview(_ROOM)[:size]))

    return unpacked


def _bounded(plain: bytes) -> bytes:
    if len(plain) > MOST:
        raise RefusedError("unpacks to too much")
    return plain


WAYS: Final[Mapping[str, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        "none": _as_it_is,
        "gzip": _gunzip,
        "snappy": _unsnap,
        "lz4": _into_room(cramjam.lz4.decompress_into),
        "zstd": _into_room(cramjam.zstd.decompress_into),
    }
)
