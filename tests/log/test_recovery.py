"""Recovery after a kill."""

import os
import random
import shutil
import time

import pytest

from broker.log.layout import CLEAN_SHUTDOWN
from broker.log.recovery import Missing, TruncatedTail
from tests.log.harness import (
    NOW,
    after_kill,
    all_records,
    append,
    batch,
    bytes_from,
    fill,
    log_files,
    make,
    offset_for_timestamp,
    offsets,
    open_store,
    sized,
)


def restart(where, tmp_path, name="killed"):
    """Open the store as the next process would; return it with its report and its first partition."""
    store, recovery = open_store(after_kill(where, tmp_path / name))
    return store, recovery, store.partition("events", 0)


def test_everything_that_was_committed_is_there_after_a_kill(store, where, tmp_path):
    log = make(store, segment_bytes=2_000)
    fill(log, 60)
    expected = all_records(log)
    _, recovery, log = restart(where, tmp_path)
    assert all_records(log) == expected
    assert (log.log_start_offset, log.high_watermark, log.next_offset) == (0, 60, 60)
    assert recovery.partitions == 1 and not recovery.truncated and not recovery.damage
    assert recovery.unclean == [str(tmp_path / "killed")]
    assert recovery.scanned_bytes == 6_000


def test_staged_batches_are_gone_after_a_kill(log, where, tmp_path):
    append(log, batch(b"a"))
    log.stage(batch(b"b"), now_wall_ms=NOW)
    _, _, log = restart(where, tmp_path)
    assert log.high_watermark == 1


def test_appending_goes_on_after_a_kill(log, where, tmp_path):
    fill(log, 10)
    store, _, log = restart(where, tmp_path)
    log = make(store)
    fill(log, 10)
    assert offsets(all_records(log)) == list(range(20))


@pytest.mark.rotates
@pytest.mark.parametrize("lost", range(1, 101))
def test_a_torn_tail_is_cut_to_the_last_whole_batch(log, where, tmp_path, lost):
    fill(log, 3)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed)
    os.truncate(path, 300 - lost)
    store, recovery = open_store(killed)
    log = store.partition("events", 0)
    assert offsets(all_records(log)) == [0, 1]
    assert path.stat().st_size == 200
    assert recovery.truncated == ([TruncatedTail("events", 0, 2, 100 - lost)] if lost < 100 else [])
    append(make(store), batch(b"next"))
    assert offsets(all_records(log)) == [0, 1, 2]


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"\x02" * 5_000, os.urandom(5_000), b"x"])
def test_garbage_behind_the_last_batch_is_cut_off(log, where, tmp_path, tail):
    fill(log, 3)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed)
    with path.open("ab") as file:
        file.write(tail)
    _, recovery = open_store(killed)
    assert recovery.truncated == [TruncatedTail("events", 0, 3, len(tail))]
    assert path.stat().st_size == 300
    assert not recovery.damage


def test_a_log_of_nothing_but_garbage_is_empty(log, where, tmp_path):
    fill(log, 1)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed)
    path.write_bytes(os.urandom(10_000))
    store, recovery = open_store(killed)
    assert recovery.truncated == [TruncatedTail("events", 0, 0, 10_000)]
    assert store.partition("events", 0).high_watermark == 0


def test_a_batch_that_is_there_twice_is_served_once(log, where, tmp_path):
    fill(log, 2)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed)
    path.write_bytes(path.read_bytes() * 2)
    store, recovery = open_store(killed)
    assert recovery.truncated == [TruncatedTail("events", 0, 2, 200)]
    assert offsets(all_records(store.partition("events", 0))) == [0, 1]


def test_a_kill_in_the_middle_of_recovery_changes_nothing(store, where, tmp_path):
    log = make(store, segment_bytes=2_000)
    fill(log, 60)
    _, _, once = restart(where, tmp_path, "once")
    _, _, twice = restart(tmp_path / "once", tmp_path, "twice")
    assert all_records(twice) == all_records(once)


def test_a_clean_end_makes_the_next_start_scan_nothing(where):
    store, _ = open_store(where)
    log = make(store, segment_bytes=2_000)
    fill(log, 50)
    expected = all_records(log)
    assert store.close() == []
    assert (where / CLEAN_SHUTDOWN).exists()
    store, recovery = open_store(where)
    assert (recovery.partitions, recovery.scanned_bytes, recovery.unclean) == (1, 0, [])
    assert not (where / CLEAN_SHUTDOWN).exists()
    assert all_records(store.partition("events", 0)) == expected
    store.close()


def test_appending_goes_on_after_a_clean_end(where):
    for _ in range(4):
        store, _ = open_store(where)
        fill(make(store, segment_bytes=2_500), 40)
        store.close()
    store, recovery = open_store(where)
    assert recovery.scanned_bytes == 0
    assert offsets(all_records(store.partition("events", 0))) == list(range(160))
    store.close()


def test_an_empty_partition_survives_both_ends(where, tmp_path):
    store, _ = open_store(where)
    make(store)
    _, recovery, log = restart(where, tmp_path)
    assert log.high_watermark == 0 and recovery.scanned_bytes == 0
    store.close()
    store, _ = open_store(where)
    append(make(store), batch(b"a"))
    store.close()


def test_a_log_that_was_shortened_after_a_clean_end_is_noticed(where):
    store, _ = open_store(where)
    fill(make(store), 5)
    store.close()
    (path,) = log_files(where)
    os.truncate(path, 450)
    store, recovery = open_store(where)
    assert recovery.truncated == [TruncatedTail("events", 0, 5, 50)]
    assert recovery.missing == [Missing("events", 0, 4, 5)]
    store.close()


def test_segments_before_the_recovery_point_are_not_scanned(store, where, tmp_path):
    log = make(store, segment_bytes=1_000)
    fill(log, 35)
    for flush in store.due_flushes(NOW):
        flush.run()
        flush.finish()
    assert log.recovery_point == 30
    checkpoint = store.checkpoint()
    checkpoint.run()
    checkpoint.finish()
    _, recovery, log = restart(where, tmp_path)
    assert recovery.scanned_bytes == 500
    assert offsets(all_records(log)) == list(range(35))


@pytest.mark.parametrize(("point", "end"), [(5, 5), (6, 6), ((1 << 62) - 1, (1 << 62) - 1), (1 << 62, 5)])
def test_a_recovery_point_beyond_the_end_is_where_the_log_goes_on_unless_it_is_absurd(
    store, where, tmp_path, point, end
):
    fill(make(store), 5)
    killed = after_kill(where, tmp_path / "killed")
    (killed / "recovery-point-offset-checkpoint").write_text(f"0\n1\nevents 0 {point}\n")
    restarted, _ = open_store(killed)
    log = restarted.partition("events", 0)
    assert (log.high_watermark, log.recovery_point) == (end, end)


def test_indexes_are_made_again(store, where, tmp_path):
    log = make(store, index_interval_bytes=250, segment_bytes=4_000)
    fill(log, 100)
    killed = after_kill(where, tmp_path / "killed")
    for suffix in (".index", ".timeindex"):
        for path in log_files(killed, suffix=suffix):
            path.write_bytes(os.urandom(64))
    restarted, _ = open_store(killed)
    log = restarted.partition("events", 0)
    for offset in range(100):
        assert bytes_from(log, offset, 1)[:8] == offset.to_bytes(8, "big")
        assert offset_for_timestamp(log, NOW + offset * 10) == (offset, NOW + offset * 10)


def test_files_that_were_left_over_are_removed(store, where, tmp_path):
    fill(make(store), 3)
    killed = after_kill(where, tmp_path / "killed")
    left = [
        "00000000000000000000.log.deleted",
        "00000000000000000000.snapshot.tmp",
        "00000000000000000007.log.swap",
    ]
    for name in left:
        (killed / "events-0" / name).write_bytes(b"x")
    (killed / "old-0.abc-delete").mkdir()
    (killed / "old-0.abc-delete" / "00000000000000000000.log").write_bytes(b"x")
    (killed / "not a partition").mkdir()
    restarted, _ = open_store(killed)
    assert not any((killed / "events-0" / name).exists() for name in left)
    assert not (killed / "old-0.abc-delete").exists()
    assert (killed / "not a partition").exists()
    assert len(restarted) == 1


def test_twenty_kills_at_random_moments_lose_nothing_that_was_acknowledged(tmp_path):
    chance = random.Random(20)
    where = tmp_path / "round0"
    acknowledged: list[bytes] = []
    for number in range(20):
        store, _ = open_store(where)
        log = make(store, segment_bytes=3_000, index_interval_bytes=200)
        assert [record.value for record in all_records(log)] == acknowledged
        for _ in range(chance.randrange(1, 40)):
            values = [b"%d" % (len(acknowledged) + at) for at in range(chance.randrange(1, 4))]
            append(log, batch(*values))
            acknowledged += values
        log.stage(batch(b"never acknowledged"), now_wall_ms=NOW)
        following = after_kill(where, tmp_path / f"round{number + 1}")
        torn = batch(b"torn")[: chance.randrange(70)]
        with log_files(following)[-1].open("ab") as file:
            file.write(torn)
        shutil.rmtree(where)
        where = following


@pytest.mark.timed
def test_a_hundred_megabytes_recover_in_less_than_five_seconds(store, where, tmp_path):
    log = make(store)
    made = sized(1_000_000)
    for _ in range(100):
        made[:8] = bytes(8)
        append(log, made)
    killed = after_kill(where, tmp_path / "killed")
    begun = time.process_time()
    _, recovery = open_store(killed)
    assert time.process_time() - begun < 5
    assert recovery.scanned_bytes == 100_000_000


def test_a_second_broker_cannot_open_the_same_directory(store, where):
    with pytest.raises(BlockingIOError):
        open_store(where)


def test_a_partition_that_cannot_be_read_is_offline_and_the_others_are_not(store, where, tmp_path):
    fill(make(store, index=0), 3)
    fill(make(store, index=1), 3)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed, index=0)
    path.unlink()
    path.mkdir()
    restarted, recovery = open_store(killed)
    assert [(each.topic, each.partition) for each in recovery.unreadable] == [("events", 0)]
    assert restarted.partition("events", 0).offline is not None
    assert make(restarted, index=0).offline is not None
    assert offsets(all_records(make(restarted, index=1))) == [0, 1, 2]
