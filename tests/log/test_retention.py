"""Deletion of segments by age, by size and by DeleteRecords, and removal of their files; also after the wall
clock jumps forward.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.config.sections.topics import TopicSettings
from broker.log.partition import RETIRED_AT_ONCE, PartitionLog
from broker.log.retention import MAX_STEP_MS, ClockSteps
from broker.log.store import LogStore
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
    sized,
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
    run_through(store.retention(NOW + 90 + age))
    assert bases(log)[0] == kept == log.log_start_offset


def test_an_active_segment_that_is_too_old_is_rolled_and_goes(store):
    log = thirty_five(store, retention_ms=1_000)
    run_through(store.retention(NOW + 340 + 1_001))
    assert bases(log) == [35]
    assert (log.log_start_offset, log.high_watermark) == (35, 35)
    fill(log, 1)
    assert offsets(all_records(log)) == [35]
    run_through(store.retention(NOW + 10**9))
    assert bases(log) == [36]
    run_through(store.retention(NOW + 10**10))
    assert bases(log) == [36]


def test_records_without_a_time_age_with_their_file(store):
    log = make(store, retention_ms=1_000)
    append(log, batch(b"a", timestamp=-1))
    run_through(store.retention(NOW))
    assert bases(log) == [0]
    run_through(store.retention(NOW * 2))
    assert bases(log) == [1]


@pytest.mark.parametrize(
    ("limit", "first"), [(3_501, 0), (3_500, 0), (2_501, 0), (2_500, 10), (2_499, 10), (1_500, 20), (0, 30)]
)
def test_the_oldest_segments_go_while_the_rest_is_large_enough(store, limit, first):
    log = thirty_five(store, retention_bytes=limit)
    run_through(store.retention(NOW))
    assert bases(log)[0] == first


def test_minus_one_keeps_everything(store):
    log = thirty_five(store, retention_ms=-1, retention_bytes=-1)
    run_through(store.retention(NOW * 2))
    assert bases(log) == [0, 10, 20, 30]


def test_a_compacted_topic_keeps_what_is_old(store):
    log = make(store, segment_bytes=1_000, cleanup_policy=("compact",), retention_ms=1)
    log.configure(TopicSettings(segment_bytes=1_000))
    fill(log, 35)
    log.configure(TopicSettings(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1))
    run_through(store.retention(NOW * 2))
    assert bases(log) == [0, 10, 20, 30]


def test_files_go_after_their_delay(store, where):
    thirty_five(store, retention_bytes=1_500, file_delete_delay_ms=60 * SECOND)
    assert run_through(store.retention(NOW)) == []
    assert [path.name for path in log_files(where)] == [
        "00000000000000000020.log",
        "00000000000000000030.log",
    ]
    assert len(log_files(where, suffix=".deleted")) >= 2
    assert run_through(store.retention(NOW + 60 * SECOND - 1)) == []
    carry_out(run_through(store.retention(NOW + 60 * SECOND)))
    assert log_files(where, suffix=".deleted") == []
    assert run_through(store.retention(NOW + 61 * SECOND)) == []


def test_a_slice_of_a_segment_that_went_is_still_sent(store):
    log = thirty_five(store, retention_bytes=0, file_delete_delay_ms=0)
    lent = log.read(3, 200, min_one_batch=True)
    carry_out(run_through(store.retention(NOW)))
    assert lent.read()[:8] == (3).to_bytes(8, "big")
    with pytest.raises(ApiError) as caught:
        log.read(3, 200, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_segments_are_not_back_after_a_kill(store, where, tmp_path):
    thirty_five(store, retention_bytes=1_500)
    run_through(store.retention(NOW))
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
    run_through(store.retention(NOW * 2))
    assert bases(log) == [0, 10, 20, 30]
    make(store, retention_ms=1_000)
    run_through(store.retention(NOW * 2))
    assert bases(log) == [35]
    store.close()


@pytest.mark.parametrize(
    ("offset", "first"), [(0, 0), (9, 0), (10, 10), (11, 10), (29, 20), (30, 30), (35, 30)]
)
def test_records_are_deleted_up_to_an_offset_and_files_follow(store, offset, first):
    log = thirty_five(store)
    assert log.delete_records_before(offset) == offset == log.log_start_offset
    assert offsets(all_records(log)) == list(range(offset, 35))
    run_through(store.retention(NOW))
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


WAIT_MS = 300_000
FIRST_MS = 30_000
YEAR_MS = 365 * MAX_STEP_MS


def steps() -> ClockSteps:
    """A ClockSteps after a first call at monotonic time 0."""
    made = ClockSteps()
    assert made.is_trusted(NOW, 0, WAIT_MS)
    return made


@pytest.mark.parametrize(
    ("step_ms", "is_trusted"), [(MAX_STEP_MS - 1, True), (MAX_STEP_MS, True), (MAX_STEP_MS + 1, False)]
)
def test_a_step_forward_of_more_than_a_day_is_not_believed(step_ms: int, is_trusted: bool) -> None:
    assert steps().is_trusted(NOW + 1_000 + step_ms, 1_000, WAIT_MS) is is_trusted


def test_time_that_passes_is_no_step_however_long_it_is() -> None:
    assert steps().is_trusted(NOW + YEAR_MS, YEAR_MS, WAIT_MS)


@pytest.mark.parametrize(
    ("later_ms", "is_trusted"), [(WAIT_MS - 1, False), (WAIT_MS, True), (WAIT_MS + 1, True)]
)
def test_the_wait_is_one_check_interval_from_the_look_that_saw_the_step(
    later_ms: int, is_trusted: bool
) -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS + 1_000, 1_000, WAIT_MS)
    assert clock.is_trusted(NOW + YEAR_MS + 1_000 + later_ms, 1_000 + later_ms, WAIT_MS) is is_trusted


@pytest.mark.parametrize(
    ("back_ms", "is_trusted"), [(MAX_STEP_MS, False), (MAX_STEP_MS + 1, True), (YEAR_MS, True)]
)
def test_a_clock_that_is_set_back_ends_the_wait(back_ms: int, is_trusted: bool) -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS + 1_000, 1_000, WAIT_MS)
    assert clock.is_trusted(NOW + YEAR_MS + 11_000 - back_ms, 11_000, WAIT_MS) is is_trusted


def test_a_second_step_begins_the_wait_anew() -> None:
    clock = steps()
    assert not clock.is_trusted(NOW + YEAR_MS, 0, WAIT_MS)
    assert not clock.is_trusted(NOW + 2 * YEAR_MS + 200_000, 200_000, WAIT_MS)
    assert not clock.is_trusted(NOW + 2 * YEAR_MS + 499_999, 499_999, WAIT_MS)
    assert clock.is_trusted(NOW + 2 * YEAR_MS + 500_000, 500_000, WAIT_MS)


def test_a_step_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = steps()
    for later_ms in (0, 60_000, 120_000):
        clock.is_trusted(NOW + YEAR_MS + later_ms, later_ms, WAIT_MS)
    records = [each.__dict__ for each in caplog.records]
    assert [(each["message"], each["step_ms"], each["wait_ms"]) for each in records] == [
        ("wall clock jumped forward: retention paused", YEAR_MS, WAIT_MS)
    ]


def old_and_new(store: LogStore, log: PartitionLog) -> None:
    """Two segments, and a topic that keeps records for a day."""
    fill(log, 3)
    log.roll()
    append(log, sized(100, timestamp=NOW + 1_000))
    run_through(store.retention(NOW, 0))
    assert len(log.segments) == 2


def test_a_year_for_ten_seconds_deletes_nothing(store: LogStore, log: PartitionLog) -> None:
    old_and_new(store, log)
    run_through(store.retention(NOW + 60_000 + YEAR_MS, 60_000))
    run_through(store.retention(NOW + 120_000, 120_000))
    run_through(store.retention(NOW + 60_000 + WAIT_MS, 60_000 + WAIT_MS))
    assert len(log.segments) == 2 and log.log_start_offset == 0


@pytest.mark.parametrize(("later_ms", "segments"), [(WAIT_MS - 1, 2), (WAIT_MS, 1)])
def test_a_clock_that_stays_a_year_ahead_deletes_after_one_check_interval(
    store: LogStore, log: PartitionLog, later_ms: int, segments: int
) -> None:
    assert store.config.retention_check_interval_ms == WAIT_MS
    old_and_new(store, log)
    run_through(store.retention(NOW + YEAR_MS + 60_000, 60_000))
    assert len(log.segments) == 2
    run_through(store.retention(NOW + YEAR_MS + 60_000 + later_ms, 60_000 + later_ms))
    assert len(log.segments) == segments


@pytest.mark.parametrize("interval_ms", [FIRST_MS - 1, FIRST_MS, FIRST_MS + 1, WAIT_MS])
@pytest.mark.parametrize(("after_ms", "segments"), [(-1, 2), (0, 1), (1, 1)])
def test_expired_segments_stay_until_the_first_check(
    store: LogStore, interval_ms: int, after_ms: int, segments: int
) -> None:
    """A client can read records that were too old when it wrote them."""
    assert store.config.initial_task_delay_ms == FIRST_MS
    store.config = replace(store.config, retention_check_interval_ms=interval_ms)
    later_ms = min(interval_ms, FIRST_MS) + after_ms
    store.note_clock(NOW, 0)
    log = make(store, retention_ms=1_000)
    fill(log, 1)
    log.roll()
    append(log, sized(100, timestamp=NOW + 1_000_000))
    run_through(store.retention(NOW + later_ms, later_ms))
    assert len(log.segments) == segments


def test_one_check_interval_passes_between_two_checks(store: LogStore) -> None:
    log = make(store, retention_ms=1_000)
    fill(log, 1)
    run_through(store.retention(NOW, 0))
    log.roll()
    append(log, sized(100, timestamp=NOW + 1_000_000))
    run_through(store.retention(NOW + 60_000, WAIT_MS - 1))
    assert len(log.segments) == 2
    run_through(store.retention(NOW + 60_000, WAIT_MS))
    assert len(log.segments) == 1


@pytest.mark.parametrize("count", [RETIRED_AT_ONCE - 1, RETIRED_AT_ONCE, RETIRED_AT_ONCE + 1, 40])
@pytest.mark.parametrize("rule", ["age", "size", "start"])
def test_of_many_segments_a_few_go_between_two_pauses(store, count, rule):
    settings = {"age": {"retention_ms": 1_000}, "size": {"retention_bytes": 0}, "start": {}}[rule]
    log = make(store, segment_bytes=100, **settings)
    fill(log, count + 1, step_ms=0)
    assert len(log.segments) == count + 1
    if rule == "start":
        log.delete_records_before(count)
    if rule == "age":
        append(log, sized(100, timestamp=NOW + 10_000))
        count += 1
    left = [count + 1]
    for _ in store.retention(NOW + 1_001):
        left.append(len(log.segments))
    assert max(one - two for one, two in pairwise(left)) <= RETIRED_AT_ONCE
    assert left[-1] == 1 == len(log.segments) and log.log_start_offset == count
