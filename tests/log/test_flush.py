"""When records are flushed: flush.messages, flush.ms, closed segments, and shutdown."""

import errno
import os

import pytest

from broker.common.slices import run_through
from broker.log.disk import flush_file_system
from tests.log.harness import NOW, append, batch, fill, make, open_store


@pytest.fixture
def synced(monkeypatch):
    """The names of the flushed files, in order."""
    names = []
    fdatasync = os.fdatasync

    def note(fd):
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", note)
    return names


def carry_out(jobs):
    for chore in jobs:
        chore.run()
        chore.finish()
        assert chore.error is None
    return len(jobs)


def test_nothing_is_flushed_unless_a_topic_wants_it(store, log):
    fill(log, 5)
    assert not store.overdue
    assert store.due_flushes(NOW + 10**12) == []


def test_answers_wait_for_a_flush_once_so_many_records_are_not_on_the_disk(store, synced):
    log = make(store, flush_messages=3)
    append(log, batch(b"a", b"b"))
    assert not store.overdue
    append(log, batch(b"c"))
    assert store.overdue
    assert carry_out(store.overdue_flushes()) == 1
    assert not store.overdue and store.overdue_flushes() == []
    assert log.recovery_point == 3 and synced == ["00000000000000000000.log"]
    append(log, batch(b"d", b"e"))
    assert not store.overdue
    append(log, batch(b"f", b"g"))
    assert store.overdue


def test_with_one_message_every_commit_is_flushed(store):
    log = make(store, flush_messages=1)
    for at in range(3):
        append(log, batch(b"a"))
        assert carry_out(store.overdue_flushes()) == 1
        assert log.recovery_point == at + 1


@pytest.mark.parametrize(("waited", "due"), [(999, 0), (1_000, 1), (1_001, 1)])
def test_a_record_is_flushed_after_flush_ms(store, waited, due):
    log = make(store, flush_ms=1_000)
    append(log, batch(b"a"), now=NOW)
    append(log, batch(b"a"), now=NOW + 500)
    assert carry_out(store.due_flushes(NOW + waited)) == due
    assert log.recovery_point == 2 * due


def test_records_appended_during_a_flush_wait_for_the_next(store):
    log = make(store, flush_ms=1_000)
    append(log, batch(b"a"), now=NOW)
    (flush,) = store.due_flushes(NOW + 1_000)
    append(log, batch(b"b"), now=NOW + 1_001)
    carry_out([flush])
    assert log.recovery_point == 1
    assert carry_out(store.due_flushes(NOW + 1_999)) == 0
    assert carry_out(store.due_flushes(NOW + 2_000)) == 1
    assert log.recovery_point == 2


def test_closed_segments_are_flushed_with_their_indexes_and_the_directories(store, synced, monkeypatch):
    directories = []
    fsync = os.fsync

    def note(fd):
        directories.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    log = make(store, segment_bytes=1_000, index_interval_bytes=100)
    fill(log, 25)
    assert carry_out(store.due_flushes(NOW)) == 1
    assert log.recovery_point == 20
    assert synced == [f"{base:020d}{kind}" for base in (0, 10) for kind in (".log", ".index", ".timeindex")]
    assert directories == [log.directory, os.path.dirname(log.directory)]
    assert store.due_flushes(NOW) == []


def test_a_segment_is_flushed_once(store, synced):
    log = make(store, segment_bytes=1_000)
    fill(log, 15)
    carry_out(store.due_flushes(NOW))
    synced.clear()
    fill(log, 10)
    carry_out(store.due_flushes(NOW))
    assert [name for name in synced if name.endswith(".log")] == ["00000000000000000010.log"]


def test_a_flush_of_a_partition_that_was_deleted_meanwhile_does_nothing(store):
    log = make(store, flush_ms=0)
    append(log, batch(b"a"))
    (flush,) = store.due_flushes(NOW)
    store.delete_partition("events", 0)
    carry_out([flush])
    carry_out(run_through(store.retention(NOW)))
    assert store.due_flushes(NOW) == []


def test_files_that_cannot_be_opened_for_a_flush_say_nothing_about_the_disk(store, monkeypatch):
    log = make(store, flush_messages=1)
    append(log, batch(b"a"))
    store._context.files.clear()

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    (flush,) = store.overdue_flushes()
    flush.run()
    flush.finish()
    monkeypatch.undo()
    assert flush.error is not None and log.offline is None and log.recovery_point == 0
    assert carry_out(store.due_flushes(NOW + 10**20)) == 1
    assert log.recovery_point == 1


def test_the_end_flushes_everything_at_once(where, monkeypatch):
    flushed = []
    monkeypatch.setattr("broker.log.disk.flush_file_system", flushed.append)
    store, _ = open_store(where)
    for index in range(3):
        fill(make(store, index=index), 3)
    store.close()
    assert flushed == [str(where)]
    store, _ = open_store(where)
    assert [log.recovery_point for log in store] == [3, 3, 3]
    store.close()
    assert flushed == [str(where)]


def test_a_file_system_is_flushed_or_says_why_not(tmp_path):
    flush_file_system(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        flush_file_system(str(tmp_path / "missing"))
