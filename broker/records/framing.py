"""Whether the readers of Kafka's clients can open what the broker can.

Called by `inspect` for batches of producers. The codecs that the broker uses read more than Kafka's do: they
follow LZ4 blocks that depend on each other and go on with a second LZ4 frame, where Kafka's
Lz4BlockInputStream refuses the one and ends before the other. Knows no record.
"""

from typing import Final

from broker.errors import ApiError, ErrorCode
from broker.records.compression import Codec

_MAGIC: Final = b"\x04\x22\x4d\x18"
_LEAST: Final = 7
"""Bytes of the shortest frame header: magic, flags, block size, checksum."""
_VERSION: Final = 0xC0
_VERSION_1: Final = 0x40
_INDEPENDENT: Final = 0x20
_BLOCK_CHECKSUMS: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_RESERVED: Final = 0x03
_STORED: Final = 0x8000_0000

MOST_BLOCKS: Final = 4_096
"""Of a frame; ours. Clients write blocks of 64 KiB and more, so 64 MiB are 1,024 of them."""


def check_framing(codec: int, packed: memoryview) -> None:
    """Raises ApiError CORRUPT_MESSAGE for an LZ4 frame that Kafka's consumers refuse, and for anything behind
    it. Takes a microsecond, and half a millisecond at most. What is compressed is not looked at.
    """
    if codec != Codec.LZ4:
        return
    if len(packed) < _LEAST or bytes(packed[:4]) != _MAGIC:
        raise _corrupt("there is no LZ4 frame")
    flags = packed[4]
    if flags & _VERSION != _VERSION_1 or flags & _RESERVED:
        raise _corrupt("unknown flags of an LZ4 frame")
    if not flags & _INDEPENDENT:
        raise _corrupt("LZ4 blocks that depend on each other are not supported")
    at = _LEAST + (8 if flags & _CONTENT_SIZE else 0)
    behind_block = 4 if flags & _BLOCK_CHECKSUMS else 0
    for _ in range(MOST_BLOCKS + 1):
        size = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if not size:
            break
        at += (size & ~_STORED) + behind_block
    else:
        raise _corrupt(f"an LZ4 frame has more than {MOST_BLOCKS} blocks")
    if flags & _CONTENT_CHECKSUM:
        at += 4
    if at != len(packed):
        raise _corrupt("an LZ4 frame does not end where the batch ends")


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"The batch cannot be unpacked: {why}")
