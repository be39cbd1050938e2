"""Zigzag varints, as records have them (Protocol Buffers' sint64).

Called by `walk` and `build`. Knows no record.
"""

from broker.errors import ApiError, ErrorCode
from broker.records.header import Buffer


def read_varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """(value, where it ends). Raises ApiError CORRUPT_MESSAGE for more than ten bytes, or too few."""
    try:
        byte = buffer[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        value = byte & 0x7F
        for shift in range(7, 70, 7):
            at += 1
            byte = buffer[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at + 1
    except IndexError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A record ends inside a number") from error
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A number in a record has more than ten bytes")


def write_varint(value: int, into: bytearray) -> None:
    """`value` fits 64 bits with its sign."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        into.append(value & 0x7F | 0x80)
        value >>= 7
    into.append(value)
