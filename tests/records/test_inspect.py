"""Record rules, search by timestamp, and the amount of work per slice."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, Slices, run_through
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import HEADER_BYTES
from broker.records.inspect import AT_ONCE, UNBOUNDED, RecordRules, check_records, first_record
from broker.records.packing import CodecWork
from broker.records.walk import records


def check(batch: Any, *, keys_needed: bool, earliest_ms: int, max_parts: int = 1_000_000) -> None:
    run_through(check_records(batch, RecordRules(keys_needed, earliest_ms, UNBOUNDED, max_parts)))


def steps(slices: Slices[Any]) -> list[str]:
    """List the yielded values, running each CodecWork at once."""
    seen = []
    for step in slices:
        if step is not None:
            step.run()
        seen.append("pause" if step is None else "unpack")
    return seen


def batch_of(count: int, headers: int = 0, codec: Codec = Codec.NONE) -> memoryview:
    return build_batch([NewRecord(b"k", b"v", 5, (("h", b"x"),) * headers)] * count, codec=codec)


def checking(batch: memoryview) -> Slices[int]:
    return check_records(batch, RecordRules(True, 0, UNBOUNDED, 1_000_000))


def finding(batch: memoryview) -> Slices[Any]:
    return first_record(batch, 6, 0)


@pytest.mark.parametrize("read", [checking, finding])
@pytest.mark.parametrize(
    ("count", "pauses"),
    [
        (1, 0),
        (AT_ONCE - 1, 0),
        (AT_ONCE, 0),
        (AT_ONCE + 1, 1),
        (SLICE - 1, 1),
        (SLICE, 2),
        (SLICE + 1, 2),
        (2 * SLICE - 1, 2),
        (2 * SLICE, 3),
    ],
)
def test_no_more_than_a_slice_of_records_is_read_between_two_pauses(
    read: Callable[[memoryview], Slices[Any]], count: int, pauses: int
) -> None:
    assert steps(read(batch_of(count))) == ["pause"] * pauses


@pytest.mark.parametrize(
    ("headers", "pauses"),
    [(SLICE - 2, 0), (SLICE - 1, 1), (SLICE, 1), (2 * SLICE - 2, 1), (2 * SLICE - 1, 2)],
)
def test_headers_count_as_records_do(headers: int, pauses: int) -> None:
    assert steps(checking(batch_of(1, headers))) == ["pause"] * pauses
    assert steps(finding(batch_of(1, headers))) == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(("size", "aside"), [(65_528, False), (65_529, False), (65_530, True)])
def test_only_a_batch_of_little_content_is_unpacked_at_once(codec: Codec, size: int, aside: bool) -> None:
    """A value of that size is a record of `size` + 7 bytes; 65,536 bytes is the limit."""
    batch = build_batch([NewRecord(b"", b"x" * (size - 4), 5)], codec=codec)
    assert len(batch) < 16_384 + HEADER_BYTES or codec is Codec.SNAPPY
    assert steps(checking(batch)) == ["unpack"] * (aside or len(batch) > 16_384 + HEADER_BYTES)


@pytest.mark.parametrize(("packed", "aside"), [(16_383, False), (16_384, False), (16_385, True)])
def test_only_a_batch_of_few_bytes_is_unpacked_at_once(packed: int, aside: bool) -> None:
    noise = random.Random(1).randbytes(packed - 26)  # the record and the LZ4 frame have 26 bytes around it
    batch = build_batch([NewRecord(b"", noise, 5)], codec=Codec.LZ4)
    assert len(batch) == packed + HEADER_BYTES
    assert steps(checking(batch)) == ["unpack"] * aside


def test_a_damaged_batch_is_refused_where_its_records_are_needed() -> None:
    batch = batch_of(40_000, codec=Codec.ZSTD)
    batch[-40:] = bytes(40)
    with pytest.raises(ApiError) as caught:
        run_through(checking(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    slices = checking(batch)
    assert next(slices) is None
    step = next(slices)
    assert isinstance(step, CodecWork) and step.data == b""


@pytest.mark.parametrize(("records_", "headers"), [(10, 0), (5, 1), (2, 4)])
@pytest.mark.parametrize(("most", "taken"), [(9, False), (10, True), (11, True)])
def test_records_and_their_headers_have_a_limit(records_: int, headers: int, most: int, taken: bool) -> None:
    batch = batch_of(records_, headers)
    if taken:
        check(batch, keys_needed=True, earliest_ms=0, max_parts=most)
        return
    with pytest.raises(ApiError) as caught:
        check(batch, keys_needed=True, earliest_ms=0, max_parts=most)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@settings(max_examples=300, deadline=None)
@given(some.binary(max_size=12), some.integers(0, 60))
def test_damage_is_refused_exactly_where_the_whole_walk_refuses_it(noise: bytes, at: int) -> None:
    new = [NewRecord(b"key", b"value", 5, (("h", b"x"), ("i", None)))] * 3
    batch = bytearray(build_batch(new))
    start = HEADER_BYTES + at % (len(batch) - HEADER_BYTES)
    batch[start : start + len(noise)] = noise[: len(batch) - start]

    def refusal(read: Callable[[], object]) -> ErrorCode | None:
        try:
            read()
        except ApiError as error:
            return ErrorCode(error.code)
        return None

    def walk() -> None:
        for expected, record in enumerate(records(batch)):
            if record.offset != expected or (record.timestamp < 2 and record.timestamp != -1):
                raise ApiError(ErrorCode.INVALID_RECORD, "")

    whole = refusal(walk)
    sliced = refusal(lambda: check(batch, keys_needed=False, earliest_ms=2))
    assert (whole is None) == (sliced is None)


@settings(max_examples=100, deadline=None)
@given(
    some.lists(some.integers(0, 9), min_size=1, max_size=20),
    some.integers(0, 10),
    some.integers(0, 20),
    some.sampled_from(Codec),
)
def test_the_first_record_is_the_one_that_reading_them_all_finds(
    times: list[int], timestamp: int, start: int, codec: Codec
) -> None:
    batch = build_batch([NewRecord(None, b"v", time) for time in times], codec=codec)
    expected = next(((at, t) for at, t in enumerate(times) if t >= timestamp and at >= start), None)
    assert run_through(first_record(batch, timestamp, start)) == expected


def test_a_compacted_topic_needs_keys():
    check(build_batch([NewRecord(b"k", None, 1)]), keys_needed=True, earliest_ms=0)
    without = build_batch([NewRecord(b"k", None, 1), NewRecord(None, b"v", 1)])
    check(without, keys_needed=False, earliest_ms=0)
    with pytest.raises(ApiError) as caught:
        check(without, keys_needed=True, earliest_ms=0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("timestamp", "taken"), [(99, False), (100, True), (101, True), (-1, True)])
def test_a_record_may_be_as_old_as_the_topic_says(timestamp, taken):
    batch = build_batch([NewRecord(None, b"v", 500), NewRecord(None, b"v", timestamp)])
    if taken:
        check(batch, keys_needed=False, earliest_ms=100)
    else:
        with pytest.raises(ApiError) as caught:
            check(batch, keys_needed=False, earliest_ms=100)
        assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_offsets_in_a_batch_go_up_by_one():
    batch = bytearray(build_batch([NewRecord(b"k", b"v", 1)] * 2))
    second = HEADER_BYTES + 1 + batch[HEADER_BYTES] // 2
    assert batch[second + 3] == 2
    batch[second + 3] = 4
    with pytest.raises(ApiError) as caught:
        check(batch, keys_needed=False, earliest_ms=0)
    assert caught.value.code is ErrorCode.INVALID_RECORD
