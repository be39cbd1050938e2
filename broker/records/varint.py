"""Zigzag varints of records (Protocol Buffers' sint64).

Called by `walk`, `inspect` and `build`. Values over 64 bits, and lengths and counts over 32 bits, are
refused: Kafka's ByteUtils reads at most ten and five bytes.
"""

from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.records.header import Buffer

_LARGEST_ZIGZAG: Final = 0xFFFF_FFFF_FFFF_FFFF
_LEAST_INT: Final = -0x8000_0000
_LARGEST_INT: Final = 0x7FFF_FFFF


def read_varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """Return (value, end position). Raises CORRUPT_MESSAGE for more than 64 bits, or too few bytes."""
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
                if value > _LARGEST_ZIGZAG:
                    break
                return (value >> 1) ^ -(value & 1), at + 1
    except IndexError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A record is truncated within a number") from error
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A number in a record exceeds 64 bits")


def read_int(buffer: Buffer, at: int) -> tuple[int, int]:
    """Like `read_varint`, for a length or a count: at most five bytes, and a value of 32 bits."""
    if at < len(buffer) and (byte := buffer[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, end = read_varint(buffer, at)
    if end - at > 5 or not _LEAST_INT <= value <= _LARGEST_INT:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A length in a record exceeds 32 bits")
    return value, end


def write_varint(value: int, into: bytearray) -> None:
    """Append `value`, which fits in 64 bits with its sign."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        into.append(value & 0x7F | 0x80)
        value >>= 7
    into.append(value)
