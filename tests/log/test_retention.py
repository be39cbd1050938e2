"""Deletion of segments by age, by size and by DeleteRecords, and removal of their files."""

import pytest

from broker.config.sections.topics import TopicSettings
from broker.errors import ApiError, ErrorCode
from tests.log.harness import (
    NOW,
    after_kill,
    all_records,
    append,
    batch,
    fill,
    log_files,
    make,
    offsets,
    open_store,
)

SECOND = 1_000


def bases(log):
    return [segment.base_offset for segment in log.segments]


def carry_out(jobs):
    for chore in jobs:
        chore.run()
        chore.finish()
        assert chore.error is None


def thirty_five(store, **settings):
    """Segments 0 to 9, 10 to 19, 20 to 29, 30 to 34, a batch of 100 bytes every 10 ms."""
    log = make(store, segment_bytes=1_000, **settings)
    fill(log, 35)
    assert bases(log) == [0, 10, 20, 30]
    return log


@pytest.mark.parametrize(("age", "kept"), [(999, 0), (1_000, 0), (1_001, 10), (1_101, 20)])
def test_a_segment_goes_when_its_newest_record_is_too_old(store, age, kept):
    log = thirty_five(store, retention_ms=1_000)
    store.retention(NOW + 90 + age)
    assert bases(log)[0] == kept == log.log_start_offset


def test_an_active_segment_that_is_too_old_is_rolled_and_goes(store):
    log = thirty_five(store, retention_ms=1_000)
    store.retention(NOW + 340 + 1_001)
    assert bases(log) == [35]
    assert (log.log_start_offset, log.high_watermark) == (35, 35)
    fill(log, 1)
    assert offsets(all_records(log)) == [35]
    store.retention(NOW + 10**9)
    assert bases(log) == [36]
    store.retention(NOW + 10**10)
    assert bases(log) == [36]


def test_records_without_a_time_age_with_their_file(store):
    log = make(store, retention_ms=1_000)
    append(log, batch(b"a", timestamp=-1))
    store.retention(NOW)
    assert bases(log) == [0]
    store.retention(NOW * 2)
    assert bases(log) == [1]


@pytest.mark.parametrize(
    ("limit", "first"), [(3_501, 0), (3_500, 0), (2_501, 0), (2_500, 10), (2_499, 10), (1_500, 20), (0, 30)]
)
def test_the_oldest_segments_go_while_the_rest_is_large_enough(store, limit, first):
    log = thirty_five(store, retention_bytes=limit)
    store.retention(NOW)
    assert bases(log)[0] == first


def test_minus_one_keeps_everything(store):
    log = thirty_five(store, retention_ms=-1, retention_bytes=-1)
    store.retention(NOW * 2)
    assert bases(log) == [0, 10, 20, 30]


def test_a_compacted_topic_keeps_what_is_old(store):
    log = make(store, segment_bytes=1_000, cleanup_policy=("compact",), retention_ms=1)
    log.configure(TopicSettings(segment_bytes=1_000))
    fill(log, 35)
    log.configure(TopicSettings(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1))
    store.retention(NOW * 2)
    assert bases(log) == [0, 10, 20, 30]


def test_files_go_after_their_delay(store, where):
    thirty_five(store, retention_bytes=1_500, file_delete_delay_ms=60 * SECOND)
    assert store.retention(NOW) == []
    assert [path.name for path in log_files(where)] == [
        "00000000000000000020.log",
        "00000000000000000030.log",
    ]
    assert len(log_files(where, suffix=".deleted")) >= 2
    assert store.retention(NOW + 60 * SECOND - 1) == []
    carry_out(store.retention(NOW + 60 * SECOND))
    assert log_files(where, suffix=".deleted") == []
    assert store.retention(NOW + 61 * SECOND) == []


def test_a_slice_of_a_segment_that_went_is_still_sent(store):
    log = thirty_five(store, retention_bytes=0, file_delete_delay_ms=0)
    lent = log.read(3, 200, min_one_batch=True)
    carry_out(store.retention(NOW))
    assert lent.read()[:8] == (3).to_bytes(8, "big")
    with pytest.raises(ApiError) as caught:
        log.read(3, 200, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_went_is_not_back_after_a_kill(store, where, tmp_path):
    thirty_five(store, retention_bytes=1_500)
    store.retention(NOW)
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    log = restarted.partition("events", 0)
    assert log.log_start_offset == 20
    assert offsets(all_records(log)) == list(range(20, 35))


def test_a_log_that_no_topic_has_claimed_is_left_alone(where):
    store, _ = open_store(where)
    thirty_five(store, retention_ms=1_000)
    store.close()
    store, _ = open_store(where)
    log = store.partition("events", 0)
    store.retention(NOW * 2)
    assert bases(log) == [0, 10, 20, 30]
    make(store, retention_ms=1_000)
    store.retention(NOW * 2)
    assert bases(log) == [35]
    store.close()


@pytest.mark.parametrize(
    ("offset", "first"), [(0, 0), (9, 0), (10, 10), (11, 10), (29, 20), (30, 30), (35, 30)]
)
def test_records_are_deleted_up_to_an_offset_and_files_follow(store, offset, first):
    log = thirty_five(store)
    assert log.delete_records_before(offset) == offset == log.log_start_offset
    assert offsets(all_records(log)) == list(range(offset, 35))
    store.retention(NOW)
    assert bases(log)[0] == first
    assert log.log_start_offset == offset


def test_records_are_deleted_only_up_to_the_end(store):
    log = thirty_five(store)
    for offset in (-1, 36):
        with pytest.raises(ApiError) as caught:
            log.delete_records_before(offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_start_offset == 0


def test_the_start_never_moves_back(store):
    log = thirty_five(store)
    assert log.delete_records_before(12) == 12
    assert log.delete_records_before(5) == 12
    assert log.log_start_offset == 12


def test_an_offset_that_was_read_before_is_not_read_after_its_deletion(store):
    log = thirty_five(store)
    log.read(5, 100, min_one_batch=True)
    log.delete_records_before(6)
    with pytest.raises(ApiError) as caught:
        log.read(5, 100, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_are_not_back_after_a_kill(store, where, tmp_path):
    log = thirty_five(store)
    log.delete_records_before(17)
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    assert restarted.partition("events", 0).log_start_offset == 17


def test_a_new_topic_of_the_same_name_starts_at_zero(store, where, tmp_path):
    thirty_five(store).delete_records_before(17)
    store.delete_partition("events", 0)
    log = make(store)
    fill(log, 3)
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    assert offsets(all_records(restarted.partition("events", 0))) == [0, 1, 2]
