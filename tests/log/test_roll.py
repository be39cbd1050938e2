"""When the active segment is closed and the next one opened."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from tests.log.harness import NOW, all_records, append, batch, fill, log_files, make, offsets, sized


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_files_are_named_by_their_first_offset(store, where):
    log = make(store, segment_bytes=200)
    fill(log, 5)
    assert [path.name for path in log_files(where)] == [f"{offset:020d}.log" for offset in (0, 2, 4)]


@pytest.mark.parametrize(("limit", "rolled"), [(299, True), (300, False), (301, False)])
def test_a_segment_is_filled_to_the_last_byte(store, limit, rolled):
    log = make(store, segment_bytes=limit)
    fill(log, 3)
    assert bases(log) == ([0, 2] if rolled else [0])


def test_a_batch_larger_than_a_segment_is_refused(store):
    log = make(store, segment_bytes=499)
    with pytest.raises(ApiError) as caught:
        log.stage(sized(500), now_wall_ms=NOW)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    append(log, sized(499))


@pytest.mark.parametrize(("later", "rolled"), [(999, False), (1_000, False), (1_001, True)])
def test_a_segment_holds_records_of_segment_ms(store, later, rolled):
    log = make(store, segment_ms=1_000)
    append(log, batch(b"a"))
    append(log, batch(b"b", timestamp=NOW + later))
    assert bases(log) == ([0, 1] if rolled else [0])


def test_records_without_a_time_do_not_roll(store):
    log = make(store, segment_ms=1_000)
    append(log, batch(b"a", timestamp=-1))
    append(log, batch(b"b", timestamp=NOW))
    assert bases(log) == [0]


def test_older_records_do_not_roll(store):
    log = make(store, segment_ms=1_000)
    append(log, batch(b"a"), batch(b"b", timestamp=NOW - 1_000_000))
    assert bases(log) == [0]


def test_segment_ms_counts_from_the_first_batch_also_after_a_restart(where):
    from tests.log.harness import open_store

    store, _ = open_store(where)
    append(make(store, segment_ms=1_000), batch(b"a"))
    store.close()
    store, _ = open_store(where)
    log = make(store, segment_ms=1_000)
    append(log, batch(b"b", timestamp=NOW + 1_000))
    append(log, batch(b"c", timestamp=NOW + 1_001))
    assert bases(log) == [0, 2]
    store.close()


def test_a_full_index_rolls(store):
    log = make(store, index_interval_bytes=0, segment_index_bytes=5 * 12)
    fill(log, 20)
    # The first batch needs no entry; the time index, 12 bytes an entry, is full before the other.
    assert bases(log) == [0, 6, 12, 18]


def test_offsets_stay_within_four_bytes_of_the_base(store):
    log = make(store)
    append(log, batch(b"a"))
    log.next_offset = log.high_watermark = 2**31 - 1
    append(log, batch(b"b"))
    assert bases(log) == [0]
    append(log, batch(b"c"))
    assert bases(log) == [0, 2**31]


def test_batches_staged_before_the_roll_stay_in_the_segment_before(store):
    log = make(store, segment_bytes=200)
    staged = [log.stage(sized(100), now_wall_ms=NOW) for _ in range(5)]
    assert log.high_watermark == 4
    store.commit()
    assert [each.base_offset for each in staged] == [0, 1, 2, 3, 4]
    assert bases(log) == [0, 2, 4]
    assert offsets(all_records(log)) == [0, 1, 2, 3, 4]


def test_smaller_segments_hold_from_the_next_append_on(store):
    from broker.config.sections.topics import TopicSettings

    log = make(store)
    fill(log, 5)
    log.configure(TopicSettings(segment_bytes=200))
    fill(log, 2)
    assert bases(log) == [0, 5]
    log.configure(TopicSettings())
    fill(log, 5)
    assert bases(log) == [0, 5]


@pytest.mark.parametrize(
    ("jitter", "age", "segments"),
    [(0.0, 1_000, 1), (0.5, 750, 1), (0.5, 751, 2), (1.0, 500, 1), (1.0, 501, 2)],
)
def test_a_roll_comes_earlier_by_a_share_of_the_jitter(store, monkeypatch, jitter, age, segments):
    monkeypatch.setattr("random.random", lambda: jitter)
    log = make(store, segment_ms=1_000, segment_jitter_ms=500)
    append(log, batch(b"a", timestamp=NOW), batch(b"b", timestamp=NOW + age))
    assert len(log.segments) == segments


def test_the_jitter_is_at_most_the_age_of_a_segment(store, monkeypatch):
    monkeypatch.setattr("random.random", lambda: 1.0)
    log = make(store, segment_ms=1_000, segment_jitter_ms=5_000)
    append(log, batch(b"a", timestamp=NOW), batch(b"b", timestamp=NOW), batch(b"c", timestamp=NOW + 1))
    assert len(log.segments) == 2
