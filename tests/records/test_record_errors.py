"""A refused batch names its refused records, each by its index."""

import pytest

from broker.common.errors import ErrorCode, RecordsRefused
from broker.common.slices import SLICE, run_through
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.inspect import MAX_NAMED_RECORDS, UNBOUNDED, RecordRules, check_records

KEYED = RecordRules(True, -UNBOUNDED, UNBOUNDED, 1_000_000)


def refused(new: list[NewRecord], rules: RecordRules, codec: Codec = Codec.NONE) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as caught:
        run_through(check_records(build_batch(new, codec=codec), rules))
    return caught.value


@pytest.mark.parametrize("codec", Codec)
def test_every_record_without_a_key_is_named(codec):
    new = [NewRecord(None if at in (1, 7, 8, 9) else b"k", b"v", 5) for at in range(10)]
    error = refused(new, KEYED, codec)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.records] == [1, 7, 8, 9]
    assert {why for _, why in error.records} == {"A compacted topic cannot accept a record without a key"}
    assert (error.message or "").startswith("4 of the batch's records are refused, the first 3: record 1: ")


def test_records_before_and_after_the_allowed_time_are_named():
    rules = RecordRules(False, 100, 200, 1_000)
    new = [NewRecord(None, b"v", time) for time in (99, 100, 200, 201, -1)]
    error = refused(new, rules)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert error.records == [
        (0, "Timestamp 99 is not from 100 to 200"),
        (3, "Timestamp 201 is not from 100 to 200"),
    ]


def test_a_wrong_timestamp_decides_the_code_and_a_missing_key_the_reason():
    rules = RecordRules(True, 100, 200, 1_000)
    error = refused([NewRecord(None, b"v", 99), NewRecord(None, b"v", 150)], rules)
    assert error.code is ErrorCode.INVALID_RECORD and [index for index, _ in error.records] == [0, 1]
    error = refused([NewRecord(None, b"v", 150), NewRecord(b"k", b"v", 99)], rules)
    assert error.code is ErrorCode.INVALID_TIMESTAMP and [index for index, _ in error.records] == [0, 1]


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (SLICE, SLICE),
        (MAX_NAMED_RECORDS - 1,) * 2,
        (MAX_NAMED_RECORDS,) * 2,
        (MAX_NAMED_RECORDS + 1, MAX_NAMED_RECORDS),
    ],
)
def test_a_bounded_number_of_records_is_named(count, named):
    error = refused([NewRecord(None, b"v", 5)] * count, KEYED)
    assert len(error.records) == named
    assert (error.message or "").startswith(f"{count} of the batch's records are refused")
