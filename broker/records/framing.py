"""Checks that Kafka's clients can read a compressed batch that the broker can read.

Called by `inspect` for producers' batches. The broker's codecs accept more than Kafka's: they decompress
dependent LZ4 blocks, which Kafka's Lz4BlockInputStream refuses, and continue with a second LZ4 frame, which
it ignores. Independent of records.
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

MAX_BLOCKS: Final = 4_096
"""Blocks of a frame; our own limit. Clients write blocks of at least 64 KiB, so 64 MiB are 1,024 blocks."""


def check_framing(codec: int, packed: memoryview) -> None:
    """Check the LZ4 framing of a batch without decompressing it.

    Raises ApiError CORRUPT_MESSAGE for an LZ4 frame that Kafka's consumers refuse, and for any data after it.
    Takes about a microsecond, and at most half a millisecond.
    """
    if codec != Codec.LZ4:
        return
    if len(packed) < _LEAST or bytes(packed[:4]) != _MAGIC:
        raise _corrupt("the LZ4 frame header is missing")
    flags = packed[4]
    if flags & _VERSION != _VERSION_1 or flags & _RESERVED:
        raise _corrupt("unsupported LZ4 frame flags")
    if not flags & _INDEPENDENT:
        raise _corrupt("dependent LZ4 blocks are not supported")
    at = _LEAST + (8 if flags & _CONTENT_SIZE else 0)
    behind_block = 4 if flags & _BLOCK_CHECKSUMS else 0
    for _ in range(MAX_BLOCKS + 1):
        size = int.from_bytes(packed[at : at + 4], "little")
        at += 4
        if not size:
            break
        at += (size & ~_STORED) + behind_block
    else:
        raise _corrupt(f"the LZ4 frame has more than {MAX_BLOCKS} blocks")
    if flags & _CONTENT_CHECKSUM:
        at += 4
    if at != len(packed):
        raise _corrupt("the LZ4 frame does not end at the end of the batch")


def _corrupt(why: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"The batch cannot be decompressed: {why}")
