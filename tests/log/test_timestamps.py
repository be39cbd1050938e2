"""ListOffsets by time."""

from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, run_through
from broker.config.sections.topics import TopicSettings
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.header import CRC, CRC_AT, CRC_FROM, HEADER, HEADER_BYTES
from broker.records.validate import crc32c
from tests.log.harness import NOW, append, batch, fill, make, max_timestamp, offset_for_timestamp, open_store


def at_times(*times, codec=Codec.NONE):
    return build_batch([NewRecord(None, b"x", NOW + time) for time in times], codec=codec)


def find(log, time):
    found = offset_for_timestamp(log, NOW + time)
    return None if found is None else (found[0], found[1] - NOW)


@pytest.mark.parametrize("settings", [{}, {"index_interval_bytes": 0}, {"segment_bytes": 700}])
def test_the_first_record_that_is_not_older_is_found(store, settings):
    log = make(store, **settings)
    fill(log, 100)
    assert find(log, -1_000_000) == (0, 0)
    for at in range(100):
        assert find(log, 10 * at - 1) == find(log, 10 * at) == (at, 10 * at)
    assert find(log, 990) == (99, 990)
    assert find(log, 991) is None


@pytest.mark.parametrize("codec", Codec)
def test_it_is_a_record_that_is_found_and_not_a_batch(log, codec):
    append(log, at_times(0, 5, 10, codec=codec), at_times(20, 15, 30, codec=codec))
    assert [find(log, time) for time in (0, 1, 5, 6, 10, 11, 16, 21, 30, 31)] == [
        (0, 0),
        (1, 5),
        (1, 5),
        (2, 10),
        (2, 10),
        (3, 20),
        (3, 20),
        (5, 30),
        (5, 30),
        None,
    ]


def test_an_earlier_offset_wins_where_times_go_back(log):
    append(log, at_times(100), at_times(50), at_times(70), at_times(200))
    assert find(log, 60) == (0, 100)
    assert find(log, 101) == (3, 200)


def test_equal_times_give_the_first_of_them(store):
    log = make(store, index_interval_bytes=0)
    append(log, *(at_times(7) for _ in range(20)))
    assert find(log, 7) == (0, 7)


def test_deleted_records_are_not_found(log):
    fill(log, 10)
    log.delete_records_before(4)
    assert find(log, 0) == (4, 40)


def test_stamped_records_have_their_batch_s_time(store):
    log = make(store, message_timestamp_type="LogAppendTime")
    append(log, at_times(0, 1, 2), now=NOW + 50)
    append(log, at_times(0, 1, 2), now=NOW + 60)
    assert (find(log, 50), find(log, 51), find(log, 61)) == ((0, 50), (3, 60), None)


def test_nothing_is_found_in_an_empty_log(log):
    assert find(log, 0) is None and max_timestamp(log) is None


def test_the_newest_record_is_found_wherever_it_is(store):
    log = make(store, segment_bytes=200)
    append(log, at_times(10), at_times(90, 500, 20), at_times(30))
    append(log, at_times(500), at_times(400))
    assert len(log.segments) > 2
    assert max_timestamp(log) == (2, NOW + 500)


def test_records_without_a_time_are_not_the_newest(log):
    append(log, batch(b"a", timestamp=-1))
    assert max_timestamp(log) is None


def test_a_batch_that_cannot_be_unpacked_is_found_as_a_whole(log):
    """The batch was stored without inspecting its records."""
    log.configure(TopicSettings(record_validation="header"))
    append(log, at_times(0))
    broken = at_times(10, 20, 30, codec=Codec.ZSTD)
    broken[HEADER_BYTES:] = bytes(len(broken) - HEADER_BYTES)
    CRC.pack_into(broken, CRC_AT, crc32c(broken[CRC_FROM:]))
    append(log, broken)
    assert find(log, 15) == (1, 30)
    assert max_timestamp(log) == (1, NOW + 30)


def test_times_are_found_after_a_clean_end(where):
    store, _ = open_store(where)
    fill(make(store, segment_bytes=700, index_interval_bytes=200), 100)
    store.close()
    store, _ = open_store(where)
    log = store.partition("events", 0)
    assert [find(log, 10 * at) for at in range(100)] == [(at, 10 * at) for at in range(100)]
    assert max_timestamp(log) == (99, NOW + 990)
    store.close()


def untrue(count=1):
    """Build a batch whose header promises a record at 50 that it does not have."""
    made = at_times(*([0] * count))
    HEADER.pack_into(made, 0, *(*HEADER.unpack_from(made)[:8], NOW + 50, *HEADER.unpack_from(made)[9:]))
    CRC.pack_into(made, CRC_AT, crc32c(made[CRC_FROM:]))
    return made


@pytest.mark.parametrize(("count", "offset"), [(15, 15), (16, 16), (17, 16), (18, 16)])
def test_after_sixteen_untrue_headers_the_next_is_taken_at_its_word(log, count, offset):
    append(log, *(untrue() for _ in range(count)), at_times(50))
    assert find(log, 1) == (offset, 50)


def test_old_records_before_the_log_start_make_no_header_untrue(log):
    append(log, at_times(50, 0), at_times(50))
    log.delete_records_before(1)
    assert find(log, 1) == (2, 50)


@pytest.mark.parametrize(("count", "pauses"), [(SLICE - 1, 0), (SLICE, 1), (SLICE + 1, 1), (2 * SLICE, 2)])
def test_no_more_than_a_slice_of_batches_is_passed_over_at_once(store, count, pauses):
    log = make(store, index_interval_bytes=1 << 30)
    append(log, *(at_times(0) for _ in range(count)), at_times(9))
    search = log.offset_for_timestamp(NOW + 5)
    assert [next(search) for _ in range(pauses)] == [None] * pauses
    with pytest.raises(StopIteration) as end:
        next(search)
    assert end.value.value == (count, NOW + 9)


def test_a_segment_that_retention_takes_between_two_slices_is_passed_over(store):
    size = len(at_times(0))
    log = make(store, segment_bytes=size * (SLICE + 1), index_interval_bytes=1 << 30, retention_ms=1_000)
    append(log, *(at_times(0) for _ in range(SLICE)))
    append(log, at_times(9))
    append(log, at_times(500_000))
    (old, new) = log.segments
    search = log.offset_for_timestamp(NOW + 5)
    assert next(search) is None
    log.retire(NOW + 500_000)
    assert log.segments == [new] and not Path(old.path).exists()
    old._files.clear()
    assert run_through(search) == (SLICE + 1, NOW + 500_000)


def test_a_search_is_refused_once_the_log_and_its_files_are_gone(store):
    log = make(store, index_interval_bytes=1 << 30)
    append(log, *(at_times(0) for _ in range(SLICE)), at_times(9))
    search = log.offset_for_timestamp(NOW + 5)
    assert next(search) is None
    log.delete()
    Path(log.segments[0].path).unlink()
    log.segments[0]._files.clear()
    with pytest.raises(ApiError) as caught:
        run_through(search)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
