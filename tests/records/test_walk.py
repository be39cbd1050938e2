"""Batches of a buffer and records of a batch, with aiokafka as the second implementation."""

import random
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as some

from broker.common.errors import ApiError, ErrorCode
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import HEADER_BYTES, header_at
from broker.records.walk import Record, batches, records

some_bytes = some.none() | some.binary(max_size=40)
some_headers = some.lists(some.tuples(some.text(max_size=8), some_bytes), max_size=3).map(tuple)
some_records = some.lists(
    some.builds(NewRecord, some_bytes, some_bytes, some.integers(0, 2**43), some_headers),
    min_size=1,
    max_size=20,
)


def as_records(new: list[NewRecord]) -> list[Record]:
    return [Record(at, each.timestamp, each.key, each.value, each.headers) for at, each in enumerate(new)]


@settings(max_examples=60, deadline=None)
@given(some_records, some.sampled_from(Codec))
def test_built_batches_are_walked(new, codec):
    assert list(records(build_batch(new, codec=codec))) == as_records(new)


@settings(max_examples=60, deadline=None)
@given(some_records, some.sampled_from(Codec))
def test_aiokafka_reads_what_is_built(new, codec):
    theirs = DefaultRecordBatch(bytes(build_batch(new, codec=codec)))
    assert theirs.validate_crc()
    read = [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs]
    assert read == as_records(new)


@settings(max_examples=60, deadline=None)
@given(some_records, some.sampled_from(Codec))
def test_batches_of_aiokafka_are_walked(new, codec):
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 10_000_000)
    for at, each in enumerate(new):
        builder.append(at, each.timestamp, each.key, each.value, list(each.headers))
    assert list(records(bytes(builder.build()))) == as_records(new)


def test_the_broker_s_time_stands_for_all_records_where_the_topic_stamps_them():
    batch = build_batch([NewRecord(None, b"a", 10), NewRecord(None, b"b", 30)], attributes=0x08)
    assert [record.timestamp for record in records(batch)] == [30, 30]


def test_batches_follow_one_another_and_the_one_that_is_cut_off_is_left_out():
    one, two = build_batch([NewRecord(None, b"a", 1)]), build_batch([NewRecord(None, b"bb", 1)])
    run = bytes(one) + bytes(two)
    assert [bytes(each) for each in batches(run)] == [bytes(one), bytes(two)]
    for cut in range(1, len(two) + 1):
        assert [bytes(each) for each in batches(run[:-cut])] == [bytes(one)]
    assert list(batches(b"")) == []


def test_a_batch_shorter_than_its_header_is_corrupt():
    batch = build_batch([NewRecord(None, b"a", 1)])
    struct.pack_into(">i", batch, 8, HEADER_BYTES - 13)
    with pytest.raises(ApiError):
        list(batches(batch))


def test_flipped_bytes_never_raise_anything_but_a_refusal():
    chance = random.Random(1)
    good = build_batch([NewRecord(b"key", b"value", 5, (("h", b"x"),)) for _ in range(5)])
    for _ in range(2_000):
        broken = bytearray(good)
        broken[chance.randrange(HEADER_BYTES, len(broken))] = chance.randrange(256)
        refused = None
        try:
            list(records(broken))
        except ApiError as error:
            refused = error.code
        assert refused in (None, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize(("count", "good"), [(2, False), (3, True), (4, False)])
def test_the_header_says_how_many_records_there_are(count, good):
    batch = build_batch([NewRecord(None, b"v", 1)] * 3)
    struct.pack_into(">i", batch, 57, count)
    if good:
        assert len(list(records(batch))) == 3
    else:
        with pytest.raises(ApiError):
            list(records(batch))


def test_an_absurd_number_of_headers_is_refused_before_anything_is_made():
    batch = bytearray(build_batch([NewRecord(None, None, 0)]))
    # length 6: attributes, time delta 0, offset delta 0, key -1, value -1, 0 headers
    assert batch[HEADER_BYTES:] == b"\x0c\x00\x00\x00\x01\x01\x00"
    batch[-1:] = b"\xfe\xff\xff\xff\x0f"
    batch[HEADER_BYTES] = 2 * 10
    with pytest.raises(ApiError) as caught:
        list(records(batch))
    assert "headers" in str(caught.value)


def test_the_greatest_time_is_in_the_header_wherever_its_record_is():
    batch = build_batch([NewRecord(None, b"v", 5), NewRecord(None, b"v", 9), NewRecord(None, b"v", 2)])
    header = header_at(batch)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset, header.codec) == (5, 9, 2, 0)
