"""Flipped bytes in the middle of a log are reported and never served, and nothing else is lost."""

import random

import pytest

from broker.common.slices import run_through
from broker.log.recovery import DamagedStretch
from broker.records.header import CRC_FROM
from broker.records.walk import batches, records
from tests.log.harness import (
    NOW,
    after_kill,
    all_records,
    append,
    batch,
    fill,
    log_files,
    make,
    max_timestamp,
    offset_for_timestamp,
    offsets,
    open_store,
)
from tests.support.batches import is_whole


def flip(path, at, bit=0x10):
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def consume(log, max_bytes=1_000):
    """Return the offsets that a consumer sees; the reader checks every batch."""
    offset, seen = log.log_start_offset, []
    while offset < log.high_watermark:
        run = list(batches(log.read(offset, max_bytes, min_one_batch=True).read()))
        if not run:
            break
        for each in run:
            assert is_whole(each)
            seen += [record.offset for record in records(each) if record.offset >= offset]
        offset = seen[-1] + 1
    return seen


@pytest.mark.parametrize("at", [100, 108, 111, 116, 117, 121, 123, 126, 157, 161, 199])
@pytest.mark.parametrize("max_bytes", [1, 150, 100_000])
def test_a_batch_with_a_flipped_byte_is_left_out_and_reported(log, where, tmp_path, at, max_bytes):
    fill(log, 10)
    killed = after_kill(where, tmp_path / "killed")
    (path,) = log_files(killed)
    flip(path, at)
    store, recovery = open_store(killed)
    log = store.partition("events", 0)
    assert consume(log, max_bytes) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert recovery.damage == [DamagedStretch(str(path), 100, 200)]
    assert not recovery.truncated


def test_an_offset_in_the_damage_is_answered_with_what_comes_next(log, where, tmp_path):
    fill(log, 5)
    killed = after_kill(where, tmp_path / "killed")
    flip(log_files(killed)[0], 150)
    store, _ = open_store(killed)
    log = store.partition("events", 0)
    first = log.read(1, 100, min_one_batch=True).read()
    assert first[:8] == (2).to_bytes(8, "big")


def test_damage_at_the_very_end_is_a_torn_tail(log, where, tmp_path):
    fill(log, 5)
    killed = after_kill(where, tmp_path / "killed")
    flip(log_files(killed)[0], 450)
    store, recovery = open_store(killed)
    assert store.partition("events", 0).high_watermark == 4
    assert recovery.truncated[0].bytes_cut == 100 and not recovery.damage


def test_damage_at_the_end_of_a_closed_segment_does_not_cost_the_next_ones(store, where, tmp_path):
    fill(make(store, segment_bytes=1_000), 35)
    killed = after_kill(where, tmp_path / "killed")
    path = log_files(killed)[1]
    flip(path, 950)
    restarted, recovery = open_store(killed)
    assert consume(restarted.partition("events", 0)) == [*range(19), *range(20, 35)]
    assert recovery.damage == [DamagedStretch(str(path), 900, 1_000)]


def test_a_whole_damaged_segment_is_passed_over(store, where, tmp_path):
    fill(make(store, segment_bytes=1_000), 35)
    killed = after_kill(where, tmp_path / "killed")
    path = log_files(killed)[1]
    path.write_bytes(bytes(1_000))
    restarted, _ = open_store(killed)
    assert consume(restarted.partition("events", 0)) == [*range(10), *range(20, 35)]


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(50))
def test_any_flipped_byte_costs_at_most_its_own_batch(store, where, tmp_path, seed):
    chance = random.Random(seed)
    log = make(store, segment_bytes=4_000, index_interval_bytes=500)
    for _ in range(80):
        append(log, batch(*(chance.randbytes(chance.randrange(120)) for _ in range(chance.randrange(1, 4)))))
    expected = all_records(log)
    killed = after_kill(where, tmp_path / "killed")
    path = chance.choice(log_files(killed))
    flip(path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))
    restarted, recovery = open_store(killed)
    log = restarted.partition("events", 0)
    seen = all_records(log, max_bytes=chance.choice([1, 700, 100_000]))
    # A flipped epoch is not covered by the CRC and costs nothing.
    lost = {record.offset for record in expected} - {record.offset for record in seen}
    assert len(lost) <= 3 and seen == [record for record in expected if record.offset not in lost]
    assert bool(lost) == bool(recovery.damage or recovery.truncated)


def clean_end(where, count=30, **settings):
    store, _ = open_store(where)
    fill(make(store, **settings), count)
    store.close()


@pytest.mark.parametrize("max_bytes", [1, 350, 100_000])
def test_a_byte_flipped_after_a_clean_end_is_not_served_and_is_reported_once(where, max_bytes, caplog):
    clean_end(where, segment_bytes=1_000)
    flip(log_files(where)[0], 350)
    store, recovery = open_store(where)
    log = store.partition("events", 0)
    assert recovery.scanned_bytes == 0 and not recovery.damage
    assert consume(log, max_bytes) == [0, 1, 2, *range(4, 30)]
    assert log.segments[0].verified.damage == [(300, 400)]
    assert consume(log, max_bytes) == [0, 1, 2, *range(4, 30)]
    (record,) = caplog.records
    assert record.where == f"{log_files(where)[0]}: bytes 300 to 400"
    store.close()


def test_readers_in_the_middle_of_an_unproven_segment_are_served_only_good_batches(where):
    clean_end(where, count=3_000, index_interval_bytes=300)
    for at in (50_050, 150_000 + CRC_FROM, 299_050):
        flip(log_files(where)[0], at)
    store, _ = open_store(where)
    log = store.partition("events", 0)
    chance = random.Random(1)
    damaged = {500, 1_500, 2_990}
    for offset in [*damaged, *chance.sample(range(3_000), 300)]:
        for made in batches(log.read(offset, 2_000, min_one_batch=True).read()):
            assert int.from_bytes(made[:8], "big") not in damaged
    assert consume(log, 5_000) == [offset for offset in range(3_000) if offset not in damaged]
    store.close()


def test_a_segment_is_proven_once_for_readers_in_order(where):
    clean_end(where, count=100)
    store, _ = open_store(where)
    log = make(store)
    assert log.segments[0].verified.needs_clipping
    assert len(consume(log)) == 100
    assert not log.segments[0].verified.needs_clipping
    fill(log, 5)
    assert not log.segments[0].verified.needs_clipping
    store.close()


def test_records_appended_to_an_unproven_segment_are_good(where):
    clean_end(where, count=6_000)
    store, _ = open_store(where)
    log = make(store)
    fill(log, 5)
    assert len(log.read(6_000, 10_000, min_one_batch=True)) == 500
    assert log.segments[0].verified.needs_clipping
    store.close()


def test_lookups_by_time_pass_damage_over(where):
    clean_end(where, count=30)
    flip(log_files(where)[0], 350)
    store, _ = open_store(where)
    log = store.partition("events", 0)
    assert offset_for_timestamp(log, NOW + 30) == (4, NOW + 40)
    assert offsets(all_records(log))[2:4] == [2, 4]
    store.close()


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_byte_flipped_in_an_index_costs_nothing(where, seed, suffix):
    chance = random.Random(seed)
    clean_end(where, count=100, segment_bytes=4_000, index_interval_bytes=250)
    path = chance.choice(log_files(where, suffix=suffix))
    flip(path, chance.randrange(path.stat().st_size), 1 << chance.randrange(8))
    store, _ = open_store(where)
    log = make(store, retention_ms=100_000)
    for offset in chance.sample(range(100), 100):
        assert log.read(offset, 1, min_one_batch=True).read()[:8] == offset.to_bytes(8, "big")
    assert consume(log) == list(range(100))
    assert max_timestamp(log) == (99, NOW + 990)
    run_through(store.retention(NOW + 100_000))
    assert log.log_start_offset == 0
    assert store.close() == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_lost_indexes_cost_nothing(where, suffix):
    clean_end(where, count=100, segment_bytes=4_000, index_interval_bytes=250)
    for path in log_files(where, suffix=suffix):
        path.unlink()
    store, _ = open_store(where)
    log = make(store)
    assert consume(log) == list(range(100))
    assert max_timestamp(log) == (99, NOW + 990)
    assert [offset_for_timestamp(log, NOW + 10 * at)[0] for at in range(100)] == list(range(100))
    store.close()
