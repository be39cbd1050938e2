"""A partition moves to another log directory while it is written to, without visible effects."""

import errno
import os
from functools import partial

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.topics import TopicSettings
from broker.log import disk
from broker.records.build import NewRecord, build_batch
from broker.records.control import Marker
from broker.records.header import TRANSACTIONAL_FLAG
from tests.log.harness import (
    NOW,
    TOPIC_ID,
    all_records,
    append,
    batch,
    bytes_from,
    fill,
    make,
    max_timestamp,
    offset_for_timestamp,
    offsets,
    sized,
)
from tests.log.moving import begin, clear, directories, finish, open_two, settle, step

HOUR = 3_600_000


@pytest.fixture
def where(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def store(where):
    opened, _ = open_two(where)
    yield opened
    opened.close()


def files_in(where, name):
    return {path.name: path.read_bytes() for path in (where / name / "events-0").iterdir()}


def test_everything_is_there_byte_for_byte_and_the_old_directory_goes(store, where):
    log = make(store, segment_bytes=1_000, index_interval_bytes=0)
    fill(log, 35)
    old = files_in(where, "a")
    finish(store, begin(store, log, "b"))
    assert directories(where) == {"a": ["events-0.delete"], "b": ["events-0"]}
    assert {name: content for name, content in files_in(where, "b").items() if name in old} == old
    assert offsets(all_records(log)) == list(range(35))
    clear(store, NOW + HOUR)
    assert directories(where) == {"a": [], "b": ["events-0"]}


def test_it_goes_on_in_the_new_place(store, where):
    log = make(store, segment_bytes=1_000)
    fill(log, 15)
    finish(store, begin(store, log, "b"))
    fill(log, 15)
    assert offsets(all_records(log)) == list(range(30))
    assert len([name for name in files_in(where, "b") if name.endswith(".log")]) == 3
    store.close()
    again, recovery = open_two(where)
    assert not recovery.unclean and not recovery.duplicates
    assert offsets(all_records(make(again))) == list(range(30))
    again.close()


def test_segments_written_and_rolled_during_a_move_are_moved_too(store):
    log = make(store, segment_bytes=1_000)
    fill(log, 35)
    finish(store, begin(store, log, "b"), most=300, between=lambda: fill(log, 1))
    assert offsets(all_records(log)) == list(range(log.high_watermark)) and log.high_watermark > 50
    assert log.segments[0].path.count("/b/") == 1


def test_a_step_copies_no_more_than_it_may(store):
    log = make(store)
    fill(log, 35)
    move = begin(store, log, "b")
    seen = []
    while step(store, move, 1_000):
        seen.append(move.copied)
    assert seen == [1_000, 2_000, 3_000, 3_000], "the fourth is for the indexes"
    assert move.copied == 3_500, "the rest is copied when it goes over"


def test_it_goes_over_when_what_is_missing_is_no_more_than_a_step(store):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")
    assert step(store, move) and move.missing == 1_000
    assert step(store, move, 999), "one byte too many to copy while requests wait"
    fill(log, 1, size=998)
    assert move.missing == 999 and not step(store, move, 999)
    assert len(all_records(log)) == 11


def test_readers_that_hold_slices_and_marks_go_on(store):
    log = make(store, segment_bytes=1_000)
    fill(log, 25)
    lent = [log.read(offset, 500, min_one_batch=True) for offset in range(25)]
    before = [each.read() for each in lent]
    finish(store, begin(store, log, "b"))
    clear(store, NOW + HOUR)
    assert [each.read() for each in lent] == before
    assert [bytes_from(log, offset, 500) for offset in range(25)] == before


def test_producers_and_staged_records_and_the_epoch_go_on(store, where):
    log = make(store)
    append(log, batch(b"a", producer=(7, 0, 0)))
    move = begin(store, log, "b")
    staged = log.stage(batch(b"b", producer=(7, 0, 1)), now_wall_ms=NOW)
    finish(store, move)
    assert log.commit() and staged.error is None and staged.base_offset == 1
    repeated = log.stage(batch(b"b", producer=(7, 0, 1)), now_wall_ms=NOW)
    assert repeated.duplicate and repeated.base_offset == 1
    with pytest.raises(ApiError) as refused:
        log.stage(batch(b"d", producer=(7, 0, 3)), now_wall_ms=NOW)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert files_in(where, "b")["leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
    store.close()
    again, _ = open_two(where)
    assert make(again).stage(batch(b"b", producer=(7, 0, 1)), now_wall_ms=NOW).duplicate
    again.close()


def test_lookups_by_time_find_what_they_found(store):
    log = make(store, segment_bytes=1_000, index_interval_bytes=0)
    fill(log, 25)
    times = [NOW + at * 10 for at in range(25)]
    before = [offset_for_timestamp(log, each) for each in times]
    finish(store, begin(store, log, "b"))
    fill(log, 5)
    assert [offset_for_timestamp(log, each) for each in times] == before
    assert max_timestamp(log) == (24, NOW + 240)


def test_index_entries_that_wait_to_be_written_are_written_there(store, where):
    log = make(store, index_interval_bytes=0)
    fill(log, 300)
    index = log.segments[-1].offsets
    assert index.unwritten and index.stored_bytes
    finish(store, begin(store, log, "b"))
    fill(log, 300)
    store.close()
    again, _ = open_two(where)
    moved = make(again)
    assert len(moved.segments[-1].offsets) == 599
    assert [bytes_from(moved, offset, 1) for offset in (0, 299, 300, 599)]
    again.close()


def test_a_transaction_that_is_aborted_while_its_log_moves_stays_aborted(store, where):
    log = make(store)
    made = partial(build_batch, producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL_FLAG)
    for sequence in range(3):
        records = made([NewRecord(None, b"x", NOW)], base_sequence=sequence)
        log.stage(records, now_wall_ms=NOW, transactional=True)
        if sequence == 1:
            move = begin(store, log, "b")
            while move.missing is None:
                assert step(store, move)
        log.stage_marker(Marker(is_commit=False, coordinator_epoch=0), 1, 0, NOW)
        assert log.commit()
    finish(store, move)
    in_memory = log.segments[-1].aborted.content()
    assert len(in_memory) == 3 * 34
    assert (where / "b" / "events-0" / f"{0:020d}.txnindex").read_bytes() == in_memory


def test_deleted_records_stay_deleted(store, where):
    log = make(store, segment_bytes=1_000)
    fill(log, 35)
    move = begin(store, log, "b")
    step(store, move, 500)
    log.delete_records_before(25)
    clear(store)
    finish(store, move, 500)
    assert log.log_start_offset == 25 and offsets(all_records(log)) == list(range(25, 35))
    clear(store, NOW + HOUR)
    assert sorted(name for name in files_in(where, "b") if name.endswith(".log")) == [
        f"{base:020d}.log" for base in (20, 30)
    ]
    store.close()
    again, _ = open_two(where)
    assert make(again).log_start_offset == 25
    again.close()


def test_a_segment_that_retention_takes_while_it_is_copied_is_passed_over(store, where):
    log = make(store, segment_bytes=1_000, retention_bytes=1_500)
    fill(log, 35)
    move = begin(store, log, "b")
    for _ in range(3):
        step(store, move, 400)
        clear(store)
    assert log.log_start_offset == 20 and offsets(all_records(log)) == list(range(20, 35))
    finish(store, move, 500)
    clear(store, NOW + HOUR)
    assert sorted(name for name in files_in(where, "b") if name.endswith(".log")) == [
        f"{base:020d}.log" for base in (20, 30)
    ]


def test_a_partition_that_is_deleted_takes_its_copy_with_it(store, where):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")
    made = store.moves.next_step(move, 500, store.directories.of(move.partition))
    store.delete_partition("events", 0)
    made.run()
    made.finish()
    assert not store.moves.is_running(move)
    assert directories(where) == {"a": ["events-0.delete"], "b": ["events-0.delete"]}
    clear(store)
    assert directories(where) == {"a": [], "b": []}
    assert make(store).high_watermark == 0


def test_a_partition_that_is_deleted_takes_what_it_left_behind_with_it(store, where):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")
    while step(store, move):
        pass
    assert directories(where) == {"a": ["events-0"], "b": ["events-0"]}
    store.delete_partition("events", 0)
    clear(store)
    assert directories(where) == {"a": [], "b": []} and store.moves.originals == []


def test_a_second_move_to_the_same_directory_goes_on_and_one_elsewhere_replaces_it(tmp_path, store, where):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")
    step(store, move, 500)
    assert begin(store, log, "b") is move
    store.move(log, store.directories.of(log))
    assert store.moves.running == {} and directories(where)["b"] == ["events-0.delete"]
    store.move(log, store.directories.of(log))
    assert store.moves.running == {}
    finish(store, begin(store, log, "b"))
    assert len(all_records(log)) == 10


def test_it_can_go_back_at_once(store, where):
    log = make(store)
    fill(log, 10)
    finish(store, begin(store, log, "b"))
    finish(store, begin(store, log, "a"))
    assert len(all_records(log)) == 10
    clear(store, NOW + HOUR)
    assert directories(where) == {"a": ["events-0"], "b": []}


def test_a_moving_log_counts_in_both_directories_for_the_next_partition(store):
    a, b = store.directories
    log = make(store)
    assert (a.count, b.count) == (1, 0)
    move = begin(store, log, "b")
    assert (a.count, b.count) == (1, 1)
    finish(store, move)
    assert (a.count, b.count) == (0, 1)
    assert store.directories.of(make(store, index=1)) is a
    begin(store, log, "a")
    store.moves.cancel(log)
    assert (a.count, b.count) == (1, 1)


@pytest.mark.parametrize("length", [213, 214])
def test_a_name_too_long_for_the_copys_directory_is_refused(store, length):
    log = make(store, topic="x" * length)
    if length == 213:
        finish(store, begin(store, log, "b"))
    else:
        with pytest.raises(ApiError) as refused:
            begin(store, log, "b")
        assert (refused.value.code, refused.value.message) == (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "The topic name is too long.",
        )


def test_an_empty_partition_moves(store, where):
    log = make(store)
    finish(store, begin(store, log, "b"))
    fill(log, 3)
    assert len(all_records(log)) == 3 and "b" in str(log.directory)


def test_damaged_bytes_move_as_they_are(store, where):
    log = make(store)
    fill(log, 30)
    store.close()
    path = where / "a" / "events-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[1_050] ^= 1
    path.write_bytes(content)
    again, _ = open_two(where)
    log = make(again)
    finish(again, begin(again, log, "b"))
    assert bytes_from(log, 0, 10_000) == bytes(content[:1_000])
    assert bytes_from(log, 10, 10_000) == bytes(content[1_100:])
    again.close()


def test_the_progress_of_the_copy_is_known(store):
    log = make(store, segment_bytes=1_000, index_interval_bytes=0)
    fill(log, 25)
    move = begin(store, log, "b")
    assert (move.size, move.end_offset, move.lag) == (0, 0, 25)
    step(store, move, 550)
    assert move.size == 550 and 3 <= move.end_offset <= 5
    while move.size < 1_000:
        step(store, move, 550)
    assert (move.end_offset, move.lag) == (10, 15)
    while move.size < 2_500:
        step(store, move, 550)
    assert (move.end_offset, move.lag) == (25, 0)


def test_a_full_disk_ends_the_move_and_the_original_is_as_it_was(store, where, monkeypatch):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "copy", full)
        with pytest.raises(OSError, match="No space left"):
            step(store, move, 500)
    store.moves.fail(log)
    assert store.moves.failed == 1 and not store.moves.is_running(move)
    fill(log, 5)
    assert offsets(all_records(log)) == list(range(15))
    clear(store)
    assert directories(where) == {"a": ["events-0"], "b": []}


@pytest.mark.parametrize("call", ["copy", "rename", "replace_file", "copy_file"])
def test_a_disk_that_refuses_in_the_last_moment_leaves_the_original_in_use(store, where, monkeypatch, call):
    log = make(store, segment_bytes=1_000)
    fill(log, 15)
    log.delete_records_before(3)
    move = begin(store, log, "b")
    while move.missing is None:
        step(store, move)
    fill(log, 1)

    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(disk, call, refuse)
        if call != "copy_file":
            with pytest.raises(OSError, match="Input/output"):
                step(store, move)
            store.moves.fail(log)
    assert offsets(all_records(log)) == list(range(3, 16)) and store.directories.of(log).path.endswith("/a")
    fill(log, 3)
    finish(store, begin(store, log, "b"))
    assert offsets(all_records(log)) == list(range(3, 19))


def test_a_partition_that_goes_offline_does_not_move(store):
    log = make(store)
    fill(log, 3)
    move = begin(store, log, "b")
    log.go_offline(OSError(errno.EIO, "broken"))
    with pytest.raises(ApiError) as refused:
        step(store, move)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError):
        begin(store, log, "b")


def test_the_old_directory_stays_until_the_disk_has_the_new_one(store, where, monkeypatch):
    log = make(store)
    fill(log, 10)
    move = begin(store, log, "b")
    while step(store, move):
        pass
    monkeypatch.setattr(os, "fdatasync", lambda _fd: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    settle(store)
    assert directories(where) == {"a": ["events-0"], "b": ["events-0"]}
    assert log.offline is not None and store.moves.originals == []


def test_a_flush_of_the_old_files_says_nothing_of_the_new_ones(store):
    log = make(store)
    fill(log, 10)
    flush = log.flush(NOW)
    move = begin(store, log, "b")
    while step(store, move):
        pass
    flush.run()
    flush.finish()
    assert flush.finished and flush.error is None
    assert log.recovery_point == 0 and log.has_new_names
    settle(store)
    assert log.recovery_point == 10 and not log.has_new_names


def test_flushes_by_message_count_are_due_again_after_a_move(store):
    log = make(store, flush_messages=1)
    fill(log, 3)
    for flush in store.overdue_flushes():
        flush.run()
        flush.finish()
    assert log.recovery_point == 3
    move = begin(store, log, "b")
    while step(store, move):
        pass
    assert log.recovery_point == 0 and [flush.end_offset for flush in store.overdue_flushes()] == [3]


def test_the_log_goes_on_under_its_settings(store):
    log = make(store, segment_bytes=1_000)
    fill(log, 5)
    finish(store, begin(store, log, "b"))
    log.adopt(TopicSettings(segment_bytes=500))
    fill(log, 10)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10]
    assert log.topic_id == TOPIC_ID and sized(100)
