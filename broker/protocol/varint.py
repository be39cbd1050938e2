"""Unsigned varints and tagged sections (KIP-482), for the cases that the compiled functions do not inline.

Called by the functions of compile_decode and compile_encode, if a length needs more than one byte or a struct
has tagged fields, and by header. Reading past the end raises IndexError, which the callers convert to
ProtocolViolation.
"""

from typing import Final

from broker.common.errors import ProtocolViolation
from broker.protocol.schema import Buffer

MAX_TAGS: Final = 1_000
"""Unknown tagged fields of one struct; Kafka's own structs have a handful."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the value at `pos` and the position after it."""
    first = buf[pos]
    if first < 0x80:
        return first, pos + 1
    return read_rest(buf, pos + 1, first)


def read_rest(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Return the value whose first byte is `first`, with the rest at `pos`, and the position after it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise ProtocolViolation("a varint has more than five bytes")


def skip_tags(buf: Buffer, pos: int, end: int, count: int) -> int:
    """Skip a section of unknown tags, whose first byte was `count`, and return the position after it."""
    if count > 0x7F:
        count, pos = read_rest(buf, pos, count)
        if count > MAX_TAGS:
            raise ProtocolViolation(f"{count} tagged fields in one struct, the maximum is {MAX_TAGS}")
    for _ in range(count):
        _tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise ProtocolViolation("a tagged field exceeds the message")
    return pos


def uvarint(value: int) -> bytes:
    """Encode `value`, which is not negative, as a varint."""
    if value <= 0x7F:
        return bytes((value,))
    if value <= 0x3FFF:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value <= 0x1F_FFFF:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
