"""A disk that is full or broken, or that reports false success: failures, rollback and recovery."""

import errno
import os
import resource

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.topics import TopicSettings
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


class Disk:
    """Wraps the system calls of the log and refuses some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.space_left: int | None = None
        self.truncates = True
        self.flushes: list[bool] = []
        self._pwritev, self._ftruncate, self._fdatasync = os.pwritev, os.ftruncate, os.fdatasync
        monkeypatch.setattr(os, "pwritev", self.pwritev)
        monkeypatch.setattr(os, "ftruncate", self.ftruncate)
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)

    def pwritev(self, fd, buffers, offset):
        """Write as much as fits, and fail the next call, as a full disk does."""
        if self.space_left is None:
            return self._pwritev(fd, buffers, offset)
        if self.space_left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._pwritev(fd, [b"".join(buffers)[: self.space_left]], offset)
        self.space_left -= written
        return written

    def ftruncate(self, fd, length):
        if not self.truncates:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._ftruncate(fd, length)

    def fdatasync(self, fd):
        if self.flushes and not self.flushes.pop(0):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fdatasync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("space_left", [0, 1, 60, 99, 100, 101, 299])
def test_a_batch_without_space_is_taken_back_whole(store, log, where, disk, space_left):
    fill(log, 2)
    disk.space_left = space_left
    staged = [log.stage(sized(100), now_wall_ms=NOW) for _ in range(3)]
    (failed,) = store.commit()
    assert failed.partition is log and failed.staged == staged and failed.error.errno == errno.ENOSPC
    assert [each.error for each in staged] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert (log.high_watermark, log.next_offset) == (2, 2)
    assert log_files(where)[0].stat().st_size == 200
    assert log.offline is None
    disk.space_left = None
    assert append(log, sized(100))[0].base_offset == 2
    assert offsets(all_records(log)) == [0, 1, 2]
    assert store.commit() == ()


def test_exactly_enough_space_is_enough(store, log, disk):
    disk.space_left = 300
    append(log, sized(100), sized(100), sized(100))
    assert log.high_watermark == 3


def test_old_records_are_read_while_the_disk_is_full(store, log, disk):
    fill(log, 3)
    disk.space_left = 0
    log.stage(sized(100), now_wall_ms=NOW)
    store.commit()
    assert offsets(all_records(log)) == [0, 1, 2]


def test_a_failure_in_one_partition_is_none_in_another(store, disk):
    first, second = make(store, index=0), make(store, index=1)
    lost = first.stage(sized(100), now_wall_ms=NOW)
    disk.space_left = 99
    (failed,) = store.commit()
    assert lost.error and failed.partition is first
    disk.space_left = None
    kept = second.stage(sized(100), now_wall_ms=NOW)
    assert store.commit() == () and kept.error is None


def test_a_producer_may_send_again_what_was_taken_back(store, log, disk):
    append(log, batch(b"a", producer=(7, 0, 0)))
    disk.space_left = 0
    for sequence in (1, 2):
        log.stage(batch(b"a", producer=(7, 0, sequence)), now_wall_ms=NOW)
    store.commit()
    disk.space_left = None
    staged = append(log, batch(b"a", producer=(7, 0, 1)), batch(b"a", producer=(7, 0, 2)))
    assert [each.duplicate for each in staged] == [False, False]
    assert offsets(all_records(log)) == [0, 1, 2]


def test_a_repetition_fails_together_with_what_it_repeats(store, log, disk):
    disk.space_left = 0
    first = log.stage(batch(b"a", producer=(7, 0, 0)), now_wall_ms=NOW)
    again = log.stage(batch(b"a", producer=(7, 0, 0)), now_wall_ms=NOW)
    assert again.duplicate
    store.commit()
    assert first.error is again.error is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_roll_behind_a_failed_write_refuses_the_batch_too(store, disk):
    log = make(store, segment_bytes=250)
    disk.space_left = 0
    staged = [log.stage(batch(b"x" * 20, producer=(7, 0, at)), now_wall_ms=NOW) for at in range(2)]
    with pytest.raises(ApiError) as caught:
        log.stage(batch(b"x" * 20, producer=(7, 0, 2)), now_wall_ms=NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [each.error for each in staged] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    disk.space_left = None
    append(log, *(batch(b"x" * 20, producer=(7, 0, at)) for at in range(3)))
    assert offsets(all_records(log)) == [0, 1, 2]
    store.commit()


def test_a_segment_that_cannot_be_made_refuses_one_batch_and_is_made_for_the_next(store, where):
    log = make(store, segment_bytes=200)
    fill(log, 2)
    (where / "events-0" / "00000000000000000002.log").mkdir()
    with pytest.raises(ApiError) as caught:
        log.stage(sized(100), now_wall_ms=NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    (where / "events-0" / "00000000000000000002.log").rmdir()
    fill(log, 1)
    assert offsets(all_records(log)) == [0, 1, 2]


def test_a_failed_rollback_takes_the_partition_offline(store, log, disk):
    fill(log, 2)
    disk.space_left, disk.truncates = 50, False
    lost = log.stage(sized(100), now_wall_ms=NOW)
    store.commit()
    disk.space_left, disk.truncates = None, True
    assert lost.error is ErrorCode.KAFKA_STORAGE_ERROR and log.offline is not None
    for refused in (
        lambda: log.stage(sized(100), now_wall_ms=NOW),
        lambda: log.read(0, 100, min_one_batch=True),
    ):
        with pytest.raises(ApiError) as caught:
            refused()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_whose_disk_was_full_recovers_without_a_trace_of_it(store, log, where, disk, tmp_path):
    fill(log, 2)
    disk.space_left = 150
    for _ in range(3):
        log.stage(sized(100), now_wall_ms=NOW)
    store.commit()
    disk.space_left = None
    restarted, recovery = open_store(after_kill(where, tmp_path / "killed"))
    assert not recovery.truncated and not recovery.damage
    assert offsets(all_records(restarted.partition("events", 0))) == [0, 1]


def test_a_real_limit_on_the_size_of_files_behaves_like_a_full_disk(store, log, where):
    fill(log, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (450, hard))
    try:
        lost = [log.stage(sized(100), now_wall_ms=NOW) for _ in range(3)]
        (failed,) = store.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.error.errno == errno.EFBIG
    assert {each.error for each in lost} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert log_files(where)[0].stat().st_size == 200
    fill(log, 3)
    assert offsets(all_records(log)) == [0, 1, 2, 3, 4]


def test_an_index_that_finds_no_space_does_not_fail_the_append(store, disk, monkeypatch):
    log = make(store, index_interval_bytes=0)
    for _ in range(600):
        disk.space_left = 100
        append(log, sized(100))
    disk.space_left = None
    for offset in (0, 1, 300, 599):
        assert log.read(offset, 1, min_one_batch=True).read()[:8] == offset.to_bytes(8, "big")


def test_a_failed_flush_takes_the_partition_offline_and_is_not_tried_again(store, log, disk):
    log.configure(TopicSettings(flush_ms=0))
    append(log, batch(b"a"))
    disk.flushes = [False]
    (flush,) = store.due_flushes(NOW)
    flush.run()
    flush.finish()
    assert flush.error is not None and log.offline is flush.error
    assert log.recovery_point == 0
    assert store.due_flushes(NOW + 1_000_000) == []
    with pytest.raises(ApiError) as caught:
        log.stage(batch(b"b"), now_wall_ms=NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_store_with_an_offline_partition_does_not_end_cleanly(where, disk):
    store, _ = open_store(where)
    log = make(store)
    fill(log, 3)
    log.configure(TopicSettings(flush_ms=0))
    fill(log, 1)
    disk.flushes = [False]
    (flush,) = store.due_flushes(NOW)
    flush.run()
    flush.finish()
    assert store.close() == [flush.error]
    store, recovery = open_store(where)
    assert recovery.unclean == [str(where)]
    assert offsets(all_records(store.partition("events", 0))) == [0, 1, 2, 3]
    assert store.close() == []


def test_an_end_whose_flush_fails_is_not_clean(where, monkeypatch):
    store, _ = open_store(where)
    fill(make(store), 3)

    def refuse(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("broker.log.disk.flush_file_system", refuse)
    assert [error.errno for error in store.close()] == [errno.EIO]
    _, recovery = open_store(where)
    assert recovery.unclean == [str(where)] and recovery.scanned_bytes == 300


def test_a_file_that_was_shortened_behind_our_back_is_an_error_and_no_crash(store, log, where):
    fill(log, 10)
    os.truncate(log_files(where)[0], 250)
    with pytest.raises(OSError):
        log.read(5, 100, min_one_batch=True).read()


def test_a_file_that_vanished_is_an_error(store, log, where):
    fill(log, 2)
    store._context.files.clear()
    log_files(where)[0].unlink()
    with pytest.raises(ApiError) as caught:
        log.read(0, 100, min_one_batch=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log_files(where)


def stage_as(log, sequence, epoch=0, producer_id=7):
    return log.stage(batch(b"a", producer=(producer_id, epoch, sequence)), now_wall_ms=NOW)


def refused_code(log, sequence, epoch=0, producer_id=7):
    with pytest.raises(ApiError) as caught:
        stage_as(log, sequence, epoch, producer_id)
    return caught.value.code


@pytest.mark.parametrize("first", [0, 57])
@pytest.mark.parametrize("failed_together", [1, 2, 7])
def test_a_new_producers_later_batch_does_not_take_the_place_of_one_that_was_not_written(
    store, log, disk, first, failed_together
):
    """The client would take the first one for written: librdkafka acknowledges what came before."""
    disk.space_left = 0
    for sequence in range(first, first + failed_together):
        stage_as(log, sequence)
    store.commit()
    disk.space_left = None
    for sequence in (first + 1, first + failed_together, first + 100):
        if sequence != first:
            assert refused_code(log, sequence) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = [stage_as(log, sequence) for sequence in range(first, first + 3)]
    assert store.commit() == ()
    assert [each.base_offset for each in again] == [0, 1, 2]
    assert refused_code(log, first + 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_fails_again_is_still_the_next_one(store, log, disk):
    disk.space_left = 0
    for _ in range(3):
        stage_as(log, 5)
        store.commit()
        assert refused_code(log, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    disk.space_left = None
    assert [stage_as(log, 5).base_offset, stage_as(log, 6).base_offset] == [0, 1]
    assert store.commit() == ()


def test_a_new_producers_batch_is_the_next_one_if_its_segment_cannot_be_made(store, monkeypatch):
    log = make(store, segment_bytes=200)
    append(log, sized(150))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr("broker.log.disk.replace_file", raising(full))
        assert refused_code(log, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused_code(log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stage_as(log, 0).base_offset == 1


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_a_new_epoch_and_other_producers_are_not_held_up(store, log, disk):
    disk.space_left = 0
    stage_as(log, 0)
    store.commit()
    disk.space_left = None
    stage_as(log, 9, producer_id=8)
    stage_as(log, 3, epoch=1)
    assert store.commit() == ()
    assert refused_code(log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stage_as(log, 4, epoch=1).base_offset == 2
