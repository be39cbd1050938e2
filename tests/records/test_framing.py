"""LZ4 frames as Kafka's Lz4BlockInputStream reads them."""

from typing import Final

import lz4.frame
import pytest

from broker.errors import ApiError, ErrorCode
from broker.records.compression import Codec, compress
from broker.records.framing import MAX_BLOCKS, check_framing

DATA: Final = bytes(range(256)) * 1_000


def refused(packed: bytes) -> bool:
    try:
        check_framing(Codec.LZ4, memoryview(packed))
    except ApiError as error:
        return error.code == ErrorCode.CORRUPT_MESSAGE
    return False


@pytest.mark.parametrize("size", [True, False])
@pytest.mark.parametrize("content_checksum", [True, False])
@pytest.mark.parametrize("block_checksum", [True, False])
@pytest.mark.parametrize("block", [4, 5, 6, 7])
def test_one_frame_of_independent_blocks_is_read(
    size: bool, content_checksum: bool, block_checksum: bool, block: int
) -> None:
    packed = lz4.frame.compress(
        DATA,
        store_size=size,
        content_checksum=content_checksum,
        block_checksum=block_checksum,
        block_size=block,
        block_linked=False,
    )
    assert not refused(packed)
    assert refused(packed[:-1]) and refused(packed + b"\0")


def test_what_the_broker_writes_is_read() -> None:
    assert not refused(bytes(compress(Codec.LZ4, DATA)))


@pytest.mark.parametrize("bits", [0x20, 0x01, 0x02, 0x80, 0xC0])
def test_every_flag_that_kafka_refuses_is_refused(bits: int) -> None:
    packed = bytearray(compress(Codec.LZ4, DATA))
    packed[4] ^= bits
    assert refused(bytes(packed))


@pytest.mark.parametrize("size", range(8))
def test_less_than_a_frame_is_none(size: int) -> None:
    assert refused(bytes(compress(Codec.LZ4, DATA))[:size])


@pytest.mark.parametrize(
    ("blocks", "taken"), [(MAX_BLOCKS - 1, True), (MAX_BLOCKS, True), (MAX_BLOCKS + 1, False)]
)
def test_the_blocks_of_a_frame_have_a_bound(blocks: int, taken: bool) -> None:
    head = bytes(compress(Codec.LZ4, b""))[:7]
    block = (1 | 0x8000_0000).to_bytes(4, "little") + b"x"
    assert refused(head + block * blocks + bytes(4)) is not taken


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.ZSTD])
def test_other_codecs_have_no_framing_of_kafka_s_own(codec: Codec) -> None:
    check_framing(codec, memoryview(b"anything"))
