"""The four codecs against the clients' libraries, decompression bombs, and LZ4 frames as Kafka's
Lz4BlockInputStream reads them.
"""

import gzip
import io
import random
import zlib
from typing import Final

import lz4.frame
import pytest
import snappy
import zstandard

from broker.common.errors import ApiError, ErrorCode
from broker.records.compression import MAX_LZ4_BLOCKS, MAX_RATIO, Codec, check_framing, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SIXTEEN_MEGABYTES = 16 * 1_048_576


def text(size: int) -> bytes:
    """Return text of which half is repetition."""
    return (random.Random(size).randbytes(size // 2) + b"abcdefgh" * (size // 16 + 1))[:size]


def xerial(data: bytes, block: int = 32_768) -> bytes:
    framed = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    for at in range(0, len(data), block):
        packed = snappy.compress(data[at : at + block])
        framed += len(packed).to_bytes(4, "big") + packed
    return framed


THEIRS = {
    "gzip": (Codec.GZIP, gzip.compress),
    "gzip in two members": (Codec.GZIP, lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:])),
    "snappy raw": (Codec.SNAPPY, snappy.compress),
    "snappy xerial": (Codec.SNAPPY, xerial),
    "lz4": (Codec.LZ4, lz4.frame.compress),
    "lz4 without a size": (Codec.LZ4, lambda data: lz4.frame.compress(data, store_size=False)),
    "zstd": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd without a size": (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
}


@pytest.mark.parametrize("size", [0, 1, 1_000, 65_536, 300_000])
@pytest.mark.parametrize("name", THEIRS)
def test_data_of_other_libraries_is_decompressed(name, size):
    codec, pack = THEIRS[name]
    assert bytes(decompress(codec, pack(text(size)))) == text(size)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("codec", [Codec.NONE, *COMPRESSED])
def test_compressed_data_is_decompressed(codec, size):
    assert bytes(decompress(codec, compress(codec, text(size)))) == text(size)


def test_other_libraries_decompress_our_data():
    data = text(200_000)
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(compress(Codec.ZSTD, data))).read() == data


def test_lz4_blocks_are_independent_because_java_reads_no_others():
    packed = compress(Codec.LZ4, text(200_000))
    assert lz4.frame.get_frame_info(packed)["block_linked"] is False


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_the_last_byte_that_is_let_out(codec):
    data = text(100_000)
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed, limit=100_001)) == data
    assert bytes(decompress(codec, packed, limit=100_000)) == data
    with pytest.raises(ApiError) as caught:
        decompress(codec, packed, limit=99_999)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_bomb_is_let_out_up_to_what_is_harmless():
    harmless = zstandard.ZstdCompressor().compress(bytes(SIXTEEN_MEGABYTES))
    assert len(harmless) * MAX_RATIO < SIXTEEN_MEGABYTES
    assert len(decompress(Codec.ZSTD, harmless)) == SIXTEEN_MEGABYTES
    with pytest.raises(ApiError) as caught:
        decompress(Codec.ZSTD, zstandard.ZstdCompressor().compress(bytes(SIXTEEN_MEGABYTES + 1)))
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_many_gzip_members_share_one_limit():
    packed = gzip.compress(bytes(1_000)) * 10
    assert len(decompress(Codec.GZIP, packed, limit=10_000)) == 10_000
    with pytest.raises(ApiError):
        decompress(Codec.GZIP, packed, limit=9_999)


@pytest.mark.parametrize("limit", [0, 1, 100, 70_000, 1_048_576, 3_000_000])
def test_gzip_is_unpacked_to_one_byte_more_than_may_come_out(limit, monkeypatch):
    came = []

    class Member:
        def __init__(self, wbits):
            self._real = zlib_decompressobj(wbits=wbits)

        def decompress(self, data, most):
            came.append(len(out := self._real.decompress(data, most)))
            return out

        def __getattr__(self, name):
            return getattr(self._real, name)

    zlib_decompressobj = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Member)
    with pytest.raises(ApiError):
        decompress(Codec.GZIP, gzip.compress(bytes(5_000_000)), limit=limit)
    assert sum(came) == limit + 1


def test_xerial_blocks_share_one_limit():
    packed = xerial(bytes(10_000), block=1_000)
    assert len(decompress(Codec.SNAPPY, packed, limit=10_000)) == 10_000
    with pytest.raises(ApiError):
        decompress(Codec.SNAPPY, packed, limit=9_999)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_and_flipped_data_never_raises_anything_else(codec):
    chance = random.Random(codec)
    whole = bytes(compress(codec, text(5_000)))
    for _ in range(300):
        broken = bytearray(whole)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        refused = None
        try:
            decompress(codec, broken[: chance.randrange(len(broken) + 1)], limit=100_000)
        except ApiError as error:
            refused = error.code
        assert refused in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def test_an_unknown_codec_is_refused():
    with pytest.raises(ApiError) as caught:
        decompress(5, b"")
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize("size", [1_048_575, 1_048_576, 1_048_577, 20_000_001])
def test_decompressed_pieces_are_moved_once_at_most(codec: Codec, size: int) -> None:
    """A growing `bytearray` copies its content while it holds the interpreter."""
    plain = bytes(range(251)) * (size // 251 + 1)
    out = decompress(codec, compress(codec, plain[:size]))
    assert isinstance(out, bytearray if size <= 1_048_576 else memoryview)
    assert len(out) == size and bytes(out) == plain[:size]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize("limit", [1_999_999, 2_000_000, 2_000_001])
def test_the_bound_of_what_comes_out_in_pieces_is_exact(codec: Codec, limit: int) -> None:
    packed = compress(codec, bytes(2_000_000))
    if limit < 2_000_000:
        with pytest.raises(ApiError) as refused:
            decompress(codec, packed, limit=limit)
        assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    else:
        assert len(decompress(codec, packed, limit=limit)) == 2_000_000


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


def test_compressed_data_of_the_broker_is_accepted() -> None:
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
    ("blocks", "taken"), [(MAX_LZ4_BLOCKS - 1, True), (MAX_LZ4_BLOCKS, True), (MAX_LZ4_BLOCKS + 1, False)]
)
def test_the_blocks_of_a_frame_have_a_bound(blocks: int, taken: bool) -> None:
    head = bytes(compress(Codec.LZ4, b""))[:7]
    block = (1 | 0x8000_0000).to_bytes(4, "little") + b"x"
    assert refused(head + block * blocks + bytes(4)) is not taken


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.ZSTD])
def test_other_codecs_have_no_framing_of_kafka_s_own(codec: Codec) -> None:
    check_framing(codec, memoryview(b"anything"))
