"""Reading: the start and length of a slice, and errors."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.log.segment import PositionLimit
from tests.log.harness import (
    NOW,
    TOPIC_ID,
    all_records,
    append,
    batch,
    bytes_from,
    fill,
    make,
    offsets,
    sized,
)


def refusal(log, offset):
    with pytest.raises(ApiError) as caught:
        log.read(offset, 1_000, min_one_batch=True)
    return caught.value.code


def test_a_slice_starts_with_the_batch_that_holds_the_offset(log):
    made = [batch(b"a", b"b", b"c"), batch(b"d"), batch(b"e", b"f")]
    append(log, *made)
    whole = b"".join(made)
    starts = [0, 0, 0, len(made[0]), len(made[0]) + len(made[1]), len(made[0]) + len(made[1])]
    for offset, start in enumerate(starts):
        assert bytes_from(log, offset) == whole[start:]


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_of_the_log_is_refused(log, offset):
    append(log, batch(b"a", b"b", b"c"))
    assert refusal(log, offset) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_there_is_nothing_at_the_end(log):
    assert len(log.read(0, 1_000, min_one_batch=True)) == 0
    append(log, batch(b"a"))
    assert len(log.read(1, 1_000, min_one_batch=True)) == 0


@pytest.mark.parametrize(
    ("max_bytes", "at_least_one", "without"),
    [
        (0, 100, 0),
        (99, 100, 0),
        (100, 100, 100),
        (101, 101, 101),
        (250, 250, 250),
        (300, 300, 300),
        (301, 300, 300),
    ],
)
def test_the_first_batch_is_whole_or_missing_and_the_last_may_be_cut(log, max_bytes, at_least_one, without):
    append(log, sized(100), sized(100), sized(100))
    assert len(log.read(0, max_bytes, min_one_batch=True)) == at_least_one
    assert len(log.read(0, max_bytes, min_one_batch=False)) == without


def test_a_slice_ends_with_its_segment(store):
    log = make(store, segment_bytes=1_000)
    fill(log, 25)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]
    assert [len(log.read(offset, 10_000, min_one_batch=True)) for offset in (0, 9, 10, 19, 20, 24)] == [
        1_000,
        100,
        1_000,
        100,
        500,
        100,
    ]


@pytest.mark.parametrize("interval", [0, 1, 150, 4_096, 100_000])
def test_every_offset_is_found_however_sparse_the_index_is(store, interval):
    log = make(store, index_interval_bytes=interval, segment_bytes=30_000)
    for at in range(400):
        append(log, batch(*(b"x" * (at % 50) for _ in range(at % 3 + 1))))
    for offset in range(log.high_watermark):
        first = bytes_from(log, offset, 1)
        base = int.from_bytes(first[:8], "big")
        delta = int.from_bytes(first[23:27], "big")
        assert base <= offset <= base + delta


def test_a_reader_that_goes_on_where_it_stopped_gets_everything_once(store):
    log = make(store, segment_bytes=7_000)
    fill(log, 200, size=130)
    assert offsets(all_records(log, max_bytes=1_000)) == list(range(200))


def test_a_cached_position_is_valid_after_further_writes(log):
    fill(log, 3)
    assert len(log.read(1, 10_000, min_one_batch=True)) == 200
    fill(log, 2)
    assert len(log.read(1, 10_000, min_one_batch=True)) == 400


def test_more_positions_of_readers_than_allowed_are_all_dropped(log):
    fill(log, 101)
    log._forget_positions()
    log._context.read_positions = PositionLimit(100)
    for offset in range(99):
        log.read(offset, 100, min_one_batch=True)
    assert len(log._read_positions) == 99
    log.read(99, 100, min_one_batch=True)
    assert len(log._read_positions) == 100
    log.read(100, 100, min_one_batch=True)
    assert len(log._read_positions) == 1


def test_positions_of_appended_batches_take_no_place_of_those_of_readers(log):
    log._context.appended_positions = PositionLimit(10)
    fill(log, 10)
    assert len(log._appended_positions) == 10
    for offset in range(10):
        log.read(offset, 100, min_one_batch=True)
    assert not log._read_positions
    fill(log, 1)
    assert list(log._appended_positions) == [10]
    log.read(3, 100, min_one_batch=True)
    fill(log, 10)
    assert list(log._read_positions) == [3]
    assert list(log._appended_positions) == [20]


def test_a_deleted_partition_cannot_be_read_but_slices_of_it_can(store, log):
    made = batch(b"a", b"b")
    append(log, made)
    lent = log.read(0, 1_000, min_one_batch=True)
    store.delete_partition("events", 0)
    assert refusal(log, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for chore in run_through(store.retention(NOW)):
        chore.run()
    again = store.create_partition("events", TOPIC_ID, 0, log.settings)
    append(again, batch(b"other"))
    assert lent.read() == bytes(made)
