"""Batches that no consumer can read, and their errors, with the clients' codecs."""

import gzip
import struct
from collections.abc import Callable
from typing import Any, Final

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as some

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.records import inspect
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec, compress
from broker.records.header import HEADER_BYTES
from broker.records.inspect import UNBOUNDED, RecordRules, check_records
from broker.records.varint import read_int
from broker.records.walk import records
from tests.records.test_compression import xerial
from tests.support.batches import TIME, packed_as, record, recounted, varint

FREE: Final = RecordRules(False, -UNBOUNDED, UNBOUNDED, 1_000_000)
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
ALL = [Codec.NONE, *CODECS]
TEN: Final = b"".join(record(at, value=b"value %d" % at) for at in range(10))
INVALID = ErrorCode.INVALID_RECORD

skippable = struct.pack("<II", 0x184D2A50, 3) + b"any"

# As the libraries of the clients write them.
WRITERS: Final[dict[str, tuple[Codec, Callable[[bytes], bytes]]]] = {
    "gzip": (Codec.GZIP, gzip.compress),
    "gzip of two members": (Codec.GZIP, lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:])),
    "snappy in xerial's framing": (Codec.SNAPPY, xerial),
    "snappy in many xerial blocks": (Codec.SNAPPY, lambda data: xerial(data, block=16)),
    "snappy raw, as librdkafka writes it": (Codec.SNAPPY, snappy.compress),
    "lz4": (Codec.LZ4, lambda data: lz4.frame.compress(data, block_linked=False)),
    "lz4 without a size": (Codec.LZ4, lambda data: lz4.frame.compress(data, store_size=False)),
    "lz4 with checksums": (
        Codec.LZ4,
        lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True),
    ),
    "zstd": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd without a size": (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
    "zstd of two frames": (
        Codec.ZSTD,
        lambda data: zstandard.compress(data[:40]) + zstandard.compress(data[40:]),
    ),
}


def verdict(batch: Any, rules: RecordRules = FREE) -> ErrorCode | int:
    """Return the largest timestamp, or the error code."""
    try:
        return run_through(check_records(batch, rules))
    except ApiError as error:
        return ErrorCode(error.code)


@pytest.mark.parametrize("name", WRITERS)
def test_batches_of_clients_are_accepted(name: str) -> None:
    codec, pack = WRITERS[name]
    batch = packed_as(pack(TEN), codec, 10)
    assert verdict(batch) == TIME
    assert [each.value for each in records(batch)] == [b"value %d" % at for at in range(10)]


@pytest.mark.parametrize("count", [1, 9, 10, 11, 12, 1_000_000])
@pytest.mark.parametrize("codec", ALL, ids=str)
def test_a_batch_has_as_many_records_as_its_header_says(codec: Codec, count: int) -> None:
    batch = packed_as(bytes(compress(codec, TEN)), codec, count)
    assert verdict(batch) == (TIME if count == 10 else INVALID)


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("behind", [b"\0", b"\0" * 8, b"garbage", skippable[:7]])
def test_nothing_follows_the_last_record(codec: Codec, behind: bytes) -> None:
    packed = bytes(compress(codec, TEN))
    assert verdict(packed_as(bytes(compress(codec, TEN + behind)), codec, 10)) is INVALID  # decompressed
    assert verdict(packed_as(packed + behind, codec, 10)) is INVALID  # compressed


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("body", [b"", b"\0", b"\xff" * 60, TEN], ids=["empty", "zero", "ones", "plain"])
def test_a_batch_is_what_its_codec_says(codec: Codec, body: bytes) -> None:
    assert verdict(packed_as(body, codec, 10)) is INVALID


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("other", CODECS, ids=str)
def test_a_batch_of_one_codec_is_none_of_another(codec: Codec, other: Codec) -> None:
    packed = bytes(compress(codec, TEN))
    assert verdict(packed_as(packed, other, 10)) == (TIME if other is codec else INVALID)


@pytest.mark.parametrize("name", WRITERS)
def test_a_batch_that_ends_early_is_refused(name: str) -> None:
    codec, pack = WRITERS[name]
    packed = pack(TEN)
    for end in (1, 5, len(packed) // 2, len(packed) - 1):
        assert verdict(packed_as(packed[:end], codec, 10)) is INVALID, end


@pytest.mark.parametrize(
    "packed",
    [
        lz4.frame.compress(TEN * 10_000, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB),
        lz4.frame.compress(TEN[:40]) + lz4.frame.compress(TEN[40:]),
        skippable + lz4.frame.compress(TEN),
    ],
    ids=["linked blocks", "two frames", "a skippable frame first"],
)
def test_lz4_that_kafka_s_consumers_refuse_or_read_in_part_is_refused(packed: bytes) -> None:
    assert verdict(packed_as(packed, Codec.LZ4, 10)) is INVALID


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_a_bomb_is_refused_by_its_size(codec: Codec) -> None:
    body = record(value=bytes(70 * 1_048_576))
    assert verdict(packed_as(bytes(compress(codec, body)), codec, 1)) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_unsupported(codec: int) -> None:
    assert verdict(packed_as(TEN, codec, 10)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def padded(value: int, size: int) -> bytes:
    """Return a number in more bytes than necessary."""
    raw = value << 1
    return bytes(raw >> 7 * at & 0x7F | (0x80 if at + 1 < size else 0) for at in range(size))


one_header = b"\2\2h\2x"
BAD_RECORDS = {
    "shorter than it says": (record(length=9), INVALID),
    "longer than it says": (record(length=7), INVALID),
    "a length of 0": (b"\0", INVALID),
    "a negative length": (record(length=-8), INVALID),
    "a key longer than the record": (b"\x10\0\0\0" + varint(100) + b"k\2v\0", INVALID),
    "a value longer than the record": (b"\x10\0\0\0\2k" + varint(100) + b"v\0", INVALID),
    "a key of two gigabytes": (b"\x18\0\0\0" + varint(2**31 - 1) + b"k\2v\0", INVALID),
    "a value that ends before the record": (record(value=b"v", headers=b"\0\0"), INVALID),
    "headers that are not there": (record(headers=b"\2"), INVALID),
    "a negative number of headers": (record(headers=b"\1"), INVALID),
    "a million headers": (record(headers=varint(1_000_000)), INVALID),
    "a header without a name": (record(headers=b"\2\1\2x"), INVALID),
    "a header longer than the record": (record(headers=b"\2\2h" + varint(50) + b"x"), INVALID),
    "a second header behind the only one": (record(headers=one_header + b"\2h\2x"), INVALID),
    "a length of six bytes": (padded(8, 6) + record()[1:], INVALID),
    "a key's length of six bytes": (b"\x1a\0\0\0" + padded(1, 6) + b"k\2v\0", INVALID),
    "a timestamp of eleven bytes": (b"\x24\0" + padded(0, 11) + b"\0\2k\2v\0", INVALID),
    "an offset of 1": (record(1), INVALID),
    "a negative offset": (record(-1), INVALID),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=str)
def test_a_record_that_no_consumer_can_read_is_refused(name: str, codec: Codec) -> None:
    body, expected = BAD_RECORDS[name]
    assert verdict(packed_as(bytes(compress(codec, body)), codec, 1)) is expected


@pytest.mark.parametrize(
    "body",
    [
        record(),
        record(key=None, value=None),
        record(key=b"", value=b""),
        record(headers=b"\0"),
        record(headers=one_header),
        record(headers=b"\2\0\1"),
        record(key=b"k" * 64, value=b"v" * 8_192),
        record(key=b"k" * 8_192, value=b"v" * 300_000),
        padded(8, 2) + record()[1:],
        padded(8, 5) + record()[1:],
        b"\x0e\0\0\0\3\2v\0",  # a key's length of -2 is no key, as in Kafka
    ],
)
def test_a_record_that_consumers_can_read_is_taken(body: bytes) -> None:
    assert verdict(packed_as(body, 0, 1)) == TIME


@pytest.mark.parametrize("count", [64, 65, 8_192, 8_193, 40_000])
def test_offsets_of_every_length_are_distinguished(count: int) -> None:
    new = [NewRecord(None, b"", TIME)] * count
    batch = build_batch(new)
    assert verdict(batch) == TIME
    twice = record(count - 2, key=None, value=b"")
    spoiled = bytes(batch[HEADER_BYTES : len(batch) - len(record(count - 1, key=None, value=b""))]) + twice
    assert verdict(packed_as(spoiled, 0, count)) is INVALID


@pytest.mark.parametrize(
    ("deltas", "largest"),
    [([0], 0), ([3, 1, 2], 3), ([-5, -9], -5), ([63, 64], 64), ([8_191, -8_192], 8_191), ([10**9], 10**9)],
)
def test_the_largest_timestamp_is_found(deltas: list[int], largest: int) -> None:
    body = b"".join(record(at, delta=delta) for at, delta in enumerate(deltas))
    assert verdict(packed_as(body, 0, len(deltas))) == TIME + largest


@pytest.mark.parametrize("name", ["plain", "with a header"])
@pytest.mark.parametrize(
    ("delta", "taken"), [(-101, False), (-100, True), (-99, True), (200, True), (201, False)]
)
def test_every_record_lies_within_the_times_of_its_topic(name: str, delta: int, taken: bool) -> None:
    headers = b"\0" if name == "plain" else one_header
    rules = RecordRules(False, TIME - 100, TIME + 200, 10)
    batch = packed_as(record(0) + record(1, delta=delta, headers=headers), 0, 2, max_timestamp=TIME)
    expected = max(TIME, TIME + delta) if taken else ErrorCode.INVALID_TIMESTAMP
    assert verdict(batch, rules) == expected


@pytest.mark.parametrize(("timestamp", "taken"), [(-2, False), (-1, True), (0, False)])
def test_only_a_record_without_a_timestamp_is_never_too_early(timestamp: int, taken: bool) -> None:
    rules = RecordRules(False, 1, UNBOUNDED, 10)
    batch = packed_as(record(0, delta=timestamp - TIME) + record(1), 0, 2)
    assert verdict(batch, rules) == (TIME if taken else ErrorCode.INVALID_TIMESTAMP)


@pytest.mark.parametrize("headers", [b"\0", one_header], ids=["plain", "with a header"])
def test_a_key_is_asked_for_in_every_record(headers: bytes) -> None:
    rules = FREE._replace(keys_needed=True)
    assert verdict(packed_as(record(0) + record(1, key=b"", headers=headers), 0, 2), rules) == TIME
    assert verdict(packed_as(record(0) + record(1, key=None, headers=headers), 0, 2), rules) is INVALID


def read_one_by_one(data: Any, at: int, done: int, stop: int, largest: int, *_: Any) -> tuple[int, int, int]:
    """Replaces `pass_plain_records` and skips no record."""
    return at, done, largest


@settings(max_examples=500, deadline=None)
@given(
    some.lists(some.tuples(some.integers(-70, 9_000), some.integers(0, 200)), min_size=1, max_size=5),
    some.binary(max_size=6),
    some.integers(0, 400),
    some.booleans(),
)
def test_plain_records_are_judged_as_all_others(
    shapes: list[tuple[int, int]], noise: bytes, at: int, keys: bool
) -> None:
    """Both ways return the same, for valid and damaged records."""
    body = bytearray(
        b"".join(record(i, delta=delta, value=b"v" * size) for i, (delta, size) in enumerate(shapes))
    )
    at %= len(body)
    body[at : at + len(noise)] = noise
    batch = packed_as(bytes(body), 0, len(shapes))
    rules = RecordRules(keys, TIME - 50, TIME + 8_000, 100)
    short = verdict(batch, rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "pass_plain_records", read_one_by_one)
        assert verdict(batch, rules) == short


@settings(max_examples=200, deadline=None)
@given(some.sampled_from(CODECS), some.integers(0, 10_000), some.integers(0, 7))
def test_one_flipped_bit_is_refused_or_changes_no_count(codec: Codec, at: int, bit: int) -> None:
    """The CRC detects such a bit; with a valid CRC, an accepted batch is readable."""
    batch = packed_as(bytes(compress(codec, TEN)), codec, 10)
    batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] ^= 1 << bit
    if isinstance(verdict(batch), ErrorCode):
        return
    assert [each.offset for each in records(batch)] == list(range(10))


@pytest.mark.parametrize("value", [20, 20_000])
@pytest.mark.parametrize("codec", ALL)
def test_a_record_of_a_compressed_batch_has_a_size_limit(codec: Codec, value: int) -> None:
    """As Kafka counts it: without the length before it. Uncompressed batches have only that of the batch."""
    long = record(1, value=b"v" * value)
    length, _ = read_int(long, 0)
    batch = packed_as(bytes(compress(codec, record(0) + long + record(2))), codec, 3)
    for most in (length - 1, length, length + 1):
        refused = most < length and codec is not Codec.NONE
        assert verdict(batch, FREE._replace(max_record_bytes=most)) == (INVALID if refused else TIME)


def test_the_header_s_count_is_not_believed_before_it_is_bounded() -> None:
    batch = recounted(packed_as(TEN, 0, 10), 100)
    assert verdict(batch, FREE._replace(max_parts=99)) is ErrorCode.MESSAGE_TOO_LARGE
    assert verdict(batch, FREE._replace(max_parts=100)) is INVALID
