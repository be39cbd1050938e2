"""The store: partitions created, found and deleted, many partitions, few descriptors."""

import errno
import os
import time

import pytest

from broker.common.errors import ApiError
from broker.common.slices import Steps, run_through
from broker.config.sections.log import LogConfig
from broker.log import checkpoints
from broker.log.partition import PartitionLog
from broker.log.producer_state import BatchMetadata, ProducerStates
from broker.log.store import LogStore
from tests.log.harness import (
    NOW,
    TOPIC_ID,
    after_kill,
    all_records,
    append,
    batch,
    bytes_from,
    fill,
    make,
    offsets,
    open_store,
)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_partition_is_made_once(store):
    log = make(store)
    assert make(store) is log is store.partition("events", 0)
    assert store.partition("events", 1) is None and store.partition("other", 0) is None
    assert len(store) == 1 and list(store) == [log]


def test_a_new_partition_avoids_cordoned_directories_while_one_is_left(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    store = LogStore(LogConfig(dirs=tuple(paths)))
    store.open()

    def placed(index, *cordoned):
        store.reconfigure(LogConfig(dirs=tuple(paths), cordoned_dirs=cordoned))
        return paths.index(store.directories.of(make(store, index=index)).path)

    assert [placed(index, paths[0]) for index in range(3)] == [1, 2, 1]
    assert placed(3, *paths[:2]) == 2
    assert placed(4) == 0
    assert placed(5, "*") == 0  # all are: that with the fewest
    store.directories.prefer("events", 6, store.directories.named(paths[1]))
    assert placed(6, *paths[:2]) == 1
    store.close()


def test_the_files_are_kafka_s(store, where):
    make(store, "my.topic_a-b", 3)
    directory = where / "my.topic_a-b-3"
    assert sorted(path.name for path in directory.iterdir()) == [
        "00000000000000000000.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_the_topic_id_is_known_after_a_restart(store, where, tmp_path):
    fill(make(store), 3)
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    assert restarted.partition("events", 0).topic_id == TOPIC_ID
    assert len(all_records(make(restarted))) == 3


def test_another_topic_under_the_same_name_begins_with_nothing(store):
    old = make(store)
    fill(old, 3)
    new = store.create_partition("events", bytes(15) + b"\x01", 0, old.settings)
    assert new is not old and old.deleted and new.high_watermark == 0


def test_a_log_whose_topic_id_is_lost_belongs_to_the_topic_of_its_name(store, where, tmp_path):
    fill(make(store), 3)
    killed = after_kill(where, tmp_path / "killed")
    (killed / "events-0" / "partition.metadata").write_bytes(b"")
    restarted, _ = open_store(killed)
    log = make(restarted)
    assert log.topic_id == TOPIC_ID and len(all_records(log)) == 3
    assert (killed / "events-0" / "partition.metadata").read_bytes().endswith(b"AAECAwQFBgcICQoLDA0ODw")


def test_a_log_of_another_topic_is_put_aside_and_not_deleted(store, where, tmp_path):
    old = make(store)
    fill(old, 3)
    store.create_partition("events", bytes(15) + b"\x01", 0, old.settings)
    _, recovery = open_store(after_kill(where, tmp_path / "killed"))
    assert recovery.partitions == 1
    (stray,) = where.glob("events-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size == 300


def test_the_longest_name_can_be_deleted(store, where):
    topic = "x" * 249
    make(store, topic, 10_000)
    store.delete_partition(topic, 10_000)
    (left,) = [path.name for path in where.iterdir() if path.is_dir()]
    assert len(left) == 255 and left.endswith("-delete")


def test_a_deleted_partition_is_gone_and_its_files_follow(store, where):
    fill(make(store), 3)
    store.delete_partition("events", 0)
    store.delete_partition("events", 0)
    assert store.partition("events", 0) is None
    (left,) = [path.name for path in where.iterdir() if path.is_dir()]
    assert left.startswith("events-0.") and left.endswith("-delete")
    for chore in run_through(store.retention(NOW)):
        chore.run()
        chore.finish()
        assert chore.error is None
    assert [path for path in where.iterdir() if path.is_dir()] == []


def test_a_partition_deleted_before_a_kill_is_not_back(store, where, tmp_path):
    fill(make(store), 3)
    store.delete_partition("events", 0)
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    assert len(restarted) == 0
    assert [path for path in (tmp_path / "killed").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("topic", ["", "a/b", "../x", "a b", "é", "x" * 250])
def test_a_name_that_is_no_directory_is_refused(store, topic):
    with pytest.raises(ValueError):
        make(store, topic)


def test_partitions_spread_over_the_directories(tmp_path):
    config = LogConfig(dirs=(str(tmp_path / "a"), str(tmp_path / "b")))
    store = LogStore(config)
    store.open()
    for index in range(4):
        fill(make(store, index=index), 2)
    assert len(list((tmp_path / "a").glob("events-*"))) == len(list((tmp_path / "b").glob("events-*"))) == 2
    store.close()
    store = LogStore(config)
    recovery = store.open()
    assert recovery.partitions == 4 and not recovery.unclean
    assert [offsets(all_records(make(store, index=index))) for index in range(4)] == [[0, 1]] * 4
    store.close()


def test_a_directory_that_cannot_be_made_says_so(store, where):
    (where / "events-0").write_bytes(b"in the way")
    with pytest.raises(ApiError):
        make(store)


def test_many_partitions_hold_few_descriptors(tmp_path):
    store, _ = open_store(tmp_path, max_open_files=16)
    before = descriptors()
    logs = [make(store, index=index) for index in range(100)]
    for turn in range(3):
        for log in logs:
            append(log, batch(b"%d" % turn))
        for log in logs:
            assert bytes_from(log, turn)
    assert descriptors() - before <= 16
    assert all(log.high_watermark == 3 for log in logs)
    store.close()
    assert descriptors() < before


def test_a_slice_of_a_file_that_was_closed_meanwhile_is_readable(tmp_path):
    store, _ = open_store(tmp_path, max_open_files=16)
    logs = [make(store, index=index) for index in range(40)]
    for log in logs:
        append(log, batch(b"%d" % log.index))
    lent = [log.read(0, 1_000, min_one_batch=True) for log in logs]
    assert [each.read()[-3:-1].strip(b"\x02\x04") for each in lent] == [b"%d" % log.index for log in logs]
    store.close()


@pytest.mark.timed
def test_a_thousand_partitions_open_in_a_moment(tmp_path):
    store, _ = open_store(tmp_path)
    for index in range(1_000):
        log = make(store, index=index)
        if index % 2:
            append(log, batch(b"a"))
    killed = after_kill(tmp_path, tmp_path.parent / f"{tmp_path.name}-killed")
    assert store.close() == []
    for where, clean in ((tmp_path, True), (killed, False)):
        begun = time.process_time()
        store, recovery = open_store(where)
        assert time.process_time() - begun < 2
        assert recovery.partitions == 1_000 and bool(recovery.unclean) is not clean
        assert sum(log.high_watermark for log in store) == 500
        store.close()


def test_a_checkpoint_contains_the_recovery_points(store, where):
    log = make(store, flush_messages=1)
    make(store, index=1)
    append(log, batch(b"a", b"b"))
    for flush in store.overdue_flushes():
        flush.run()
        flush.finish()
    checkpoint = store.checkpoint()
    checkpoint.run()
    checkpoint.finish()
    assert (where / "recovery-point-offset-checkpoint").read_text() == "0\n2\nevents 0 2\nevents 1 0\n"


# Periodic work with many partitions

MANY = 96


class Calls(list[object]):
    """The calls of a function since it was replaced, and the most of them between two pauses of steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        super().__init__()
        original = getattr(owner, name)

        def counted(*args: object) -> object:
            self.append(args)
            return original(*args)

        monkeypatch.setattr(owner, name, counted)

    def most_in(self, steps: Steps[object]) -> int:
        most = before = len(self)
        for _ in steps:
            most, before = max(most, len(self) - before), len(self)
        return max(most, len(self) - before)


def test_retention_checks_one_partition_between_two_pauses(store, monkeypatch):
    for index in range(MANY):
        make(store, "many", index)
    calls = Calls(monkeypatch, PartitionLog, "retire")
    assert calls.most_in(store.retention(NOW)) == 1
    assert len(calls) == MANY


def test_a_partition_that_is_deleted_during_retention_is_left_alone(store, monkeypatch):
    for index in range(MANY):
        make(store, "many", index)
    calls = Calls(monkeypatch, PartitionLog, "retire")
    steps = store.retention(NOW)
    while not calls:
        next(steps)
    store.delete_partition("many", MANY - 1)
    run_through(steps)
    assert len(calls) == MANY - 1


def test_deleted_partitions_are_forgotten_with_one_point_between_two_pauses(store, where, monkeypatch):
    for index in range(MANY + 1):
        make(store, "many", index)
    store.delete_partition("many", MANY)
    calls = Calls(monkeypatch, checkpoints, "offset_line")
    assert calls.most_in(store.forget_deleted()) == 1
    assert len(calls) == MANY
    text = (where / "recovery-point-offset-checkpoint").read_bytes()
    assert checkpoints.parse_offsets(text) == {("many", index): 0 for index in range(MANY)}


def test_the_thread_formats_the_recovery_points_not_the_loop(store, where, monkeypatch):
    for index in range(3):
        make(store, "many", index)
    calls = Calls(monkeypatch, checkpoints, "offset_line")
    job = store.checkpoint()
    assert calls == []
    store.delete_partition("many", 1)
    job.run()
    text = (where / "recovery-point-offset-checkpoint").read_bytes()
    assert checkpoints.parse_offsets(text) == {("many", 0): 0, ("many", 2): 0}


def test_a_start_offset_formats_one_line(store, monkeypatch):
    logs = [make(store, "many", index) for index in range(3)]
    for log in logs:
        fill(log, 2)
        log.delete_records_before(1)
    calls = Calls(monkeypatch, checkpoints, "offset_line")
    logs[1].delete_records_before(2)
    assert calls == [(("many", 1), 2)]


@pytest.mark.parametrize("count", [1, 2, MANY])
def test_one_idle_producer_expires_between_two_pauses(count):
    producers = ProducerStates()
    for producer_id in range(count):
        producers.add(producer_id, 0, BatchMetadata(0, 0, 0, 0, NOW), NOW)
    left = [len(producers) for _ in producers.expire(NOW)]
    assert left == list(reversed(range(count)))
    assert len(producers) == 0


def test_expiry_of_producers_checks_one_partition_between_two_pauses(store, monkeypatch):
    for index in range(MANY):
        make(store, "many", index)
    calls = Calls(monkeypatch, ProducerStates, "expire")
    assert calls.most_in(store.expire_producers(NOW)) == 1
    assert len(calls) == MANY


@pytest.fixture
def flushed_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files and folders that are flushed, in order."""
    names: list[str] = []
    flush = os.fsync

    def watched(fd: int) -> None:
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        flush(fd)

    monkeypatch.setattr(os, "fsync", watched)
    return names


def checkpoint(store: LogStore) -> None:
    job = store.checkpoint()
    job.run()
    job.finish()
    assert job.error is None


STARTS = ["log-start-offset-checkpoint.copy", "log-start-offset-checkpoint", "data"]


def test_deleted_records_stay_deleted_after_a_kill_without_a_flush(store, where, tmp_path, flushed_files):
    log = make(store)
    append(log, batch(b"a", b"b", b"c"))
    flushed_files.clear()
    assert log.delete_records_before(2) == 2
    assert flushed_files == []
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    again = restarted.partition("events", 0)
    assert again is not None and again.log_start_offset == 2


def test_a_checkpoint_flushes_the_start_offsets_that_changed(store, where, flushed_files):
    log = make(store)
    append(log, batch(b"a", b"b", b"c"))
    checkpoint(store)
    flushed_files.clear()
    checkpoint(store)
    without = list(flushed_files)
    assert not any(name in STARTS[:2] for name in without)
    for offset in (1, 2):
        log.delete_records_before(offset)
        flushed_files.clear()
        checkpoint(store)
        assert flushed_files == [*without, *STARTS]
    flushed_files.clear()
    checkpoint(store)
    assert flushed_files == without


def test_start_offsets_that_could_not_be_flushed_are_flushed_later(store, monkeypatch, flushed_files):
    log = make(store)
    append(log, batch(b"a", b"b", b"c"))
    log.delete_records_before(1)

    def failing(path: str) -> None:
        raise OSError(errno.EIO, "no", path)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.disk, "flush_file", failing)
        job = store.checkpoint()
        job.run()
        assert job.error is not None and job.error.errno == errno.EIO
    flushed_files.clear()
    checkpoint(store)
    assert flushed_files[-3:] == STARTS


def test_a_clean_stop_flushes_the_start_offsets(where, flushed_files):
    store, _ = open_store(where)
    log = make(store)
    append(log, batch(b"a", b"b", b"c"))
    log.delete_records_before(1)
    flushed_files.clear()
    store.close()
    assert set(STARTS) <= set(flushed_files)
