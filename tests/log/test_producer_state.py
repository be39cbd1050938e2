"""Idempotence: next, repeated and missing sequences. Rules of Kafka's ProducerAppendInfo."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.log.producer_state import (
    MAX_PRODUCERS,
    RETAINED_BATCHES,
    BatchMetadata,
    ProducerStates,
    parse_snapshot,
    sequence_after,
    snapshot,
)
from tests.log.harness import NOW, after_kill, all_records, append, batch, make, open_store

LAST = 2**31 - 1


def add(producers, first, count, *, epoch=0, producer_id=7, now=NOW, offset=0):
    taken = BatchMetadata(first, sequence_after(first, count - 1), offset, offset + count - 1, now)
    producers.add(producer_id, epoch, taken, now)
    producers.settle()
    return taken


def refusal(producers, first, *, epoch=0, delta=0):
    with pytest.raises(ApiError) as caught:
        producers.check(7, epoch, first, delta)
    return caught.value.code


def test_an_unknown_producer_may_begin_anywhere():
    assert ProducerStates().check(7, 3, 1_000, 0) is None


@pytest.mark.parametrize("first", [3, 5, 0, LAST])
def test_only_the_next_sequence_is_taken(first):
    producers = ProducerStates()
    add(producers, 0, 4)
    assert refusal(producers, first) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(7, 0, 4, 0) is None


def test_sequences_start_again_after_the_largest_int():
    producers = ProducerStates()
    taken = add(producers, LAST - 1, 4)
    assert taken.last_sequence == 1
    assert producers.check(7, 0, 2, 0) is None
    assert producers.check(7, 0, LAST - 1, 3) == taken
    add(producers, LAST, 1, producer_id=8)
    assert producers.check(8, 0, 0, 0) is None


def test_the_last_five_batches_are_recognised_and_the_sixth_is_not():
    producers = ProducerStates()
    taken = [add(producers, 10 * at, 10, offset=10 * at) for at in range(RETAINED_BATCHES + 1)]
    assert refusal(producers, 0, delta=9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for at in range(1, RETAINED_BATCHES + 1):
        assert producers.check(7, 0, 10 * at, 9) == taken[at]


def test_a_repetition_has_the_same_first_and_last_sequence():
    producers = ProducerStates()
    add(producers, 0, 10)
    assert refusal(producers, 0, delta=8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, 1, delta=8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_newer_epoch_begins_at_zero_and_shuts_the_older_one_out():
    producers = ProducerStates()
    add(producers, 0, 5, epoch=1)
    assert refusal(producers, 5, epoch=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(7, 2, 0, 0) is None
    add(producers, 0, 1, epoch=2)
    assert refusal(producers, 5, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, 0, epoch=1, delta=4) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_additions_since_the_last_settlement_are_undone():
    producers = ProducerStates()
    add(producers, 0, 5)
    before = producers.items()
    producers.add(7, 0, BatchMetadata(5, 9, 5, 9, NOW), NOW + 1)
    producers.add(7, 0, BatchMetadata(10, 14, 10, 14, NOW), NOW + 1)
    producers.add(8, 0, BatchMetadata(0, 0, 15, 15, NOW), NOW + 1)
    producers.undo()
    assert producers.items() == before
    producers.undo()
    assert producers.items() == before


def test_a_producer_is_forgotten_when_it_was_not_seen_for_long():
    producers = ProducerStates()
    for producer_id, seen in ((1, NOW - 1), (2, NOW), (3, NOW + 1)):
        add(producers, 0, 1, producer_id=producer_id, now=seen)
    run_through(producers.expire(NOW))
    assert [producer_id for producer_id, _ in producers.items()] == [3]


def test_a_snapshot_brings_back_the_last_batch_of_each():
    producers = ProducerStates()
    for at in range(3):
        add(producers, at * 5, 5, offset=100 + at * 5, epoch=2)
    add(producers, LAST - 1, 4, producer_id=9, offset=500)
    back = parse_snapshot(snapshot(producers))
    assert back is not None
    assert back.get(7).batches == (BatchMetadata(10, 14, 110, 114, NOW),)
    assert (back.get(7).epoch, back.get(7).seen_ms) == (2, NOW)
    assert back.get(9).batches == (BatchMetadata(LAST - 1, 1, 500, 503, NOW),)


def test_a_damaged_snapshot_is_no_snapshot():
    producers = ProducerStates()
    add(producers, 0, 1)
    good = snapshot(producers)
    assert parse_snapshot(b"") is None
    for at in range(len(good)):
        assert parse_snapshot(good[:at]) is None
        broken = bytearray(good)
        broken[at] ^= 1
        assert parse_snapshot(bytes(broken)) is None


def test_a_repeated_batch_gets_the_first_one_s_offsets_and_is_not_written(log):
    append(log, batch(b"x"))
    (first,) = append(log, batch(b"a", b"b", producer=(7, 0, 0)))
    (again,) = append(log, batch(b"a", b"b", producer=(7, 0, 0)))
    assert (again.base_offset, again.last_offset, again.duplicate) == (
        first.base_offset,
        first.last_offset,
        True,
    )
    assert (first.log_append_time, again.log_append_time) == (-1, first.max_timestamp)
    assert log.high_watermark == 3
    assert len(all_records(log)) == 3


def test_a_stamped_repetition_carries_the_time_of_the_first(store):
    log = make(store, message_timestamp_type="LogAppendTime")
    append(log, batch(b"a", producer=(7, 0, 0)), now=NOW)
    (again,) = append(log, batch(b"a", producer=(7, 0, 0)), now=NOW + 50)
    assert again.log_append_time == NOW


def test_several_batches_of_a_producer_may_be_staged_together(log):
    staged = append(log, *(batch(b"a", b"b", producer=(7, 0, 2 * at)) for at in range(4)))
    assert [each.base_offset for each in staged] == [0, 2, 4, 6]


def test_partitions_know_nothing_of_each_other_s_producers(store):
    append(make(store, index=0), batch(b"a", producer=(7, 0, 0)))
    with pytest.raises(ApiError):
        append(make(store, index=0), batch(b"a", producer=(7, 0, 5)))
    append(make(store, index=1), batch(b"a", producer=(7, 0, 5)))


@pytest.mark.parametrize("rolled", [False, True])
def test_sequences_survive_a_kill(store, where, tmp_path, rolled):
    log = make(store, segment_bytes=500 if rolled else 1_000_000)
    for at in range(20):
        append(log, batch(b"a", producer=(7, 0, at)))
    assert (len(log.segments) > 1) is rolled
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    log = make(restarted)
    (again,) = append(log, batch(b"a", producer=(7, 0, 19)))
    assert again.duplicate and again.base_offset == 19
    with pytest.raises(ApiError) as caught:
        log.stage(batch(b"a", producer=(7, 0, 21)), now_wall_ms=NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(b"a", producer=(7, 0, 20)))


def test_after_a_kill_all_five_batches_are_recognised(store, where, tmp_path):
    log = make(store)
    for at in range(10):
        append(log, batch(b"a", producer=(7, 0, at)))
    restarted, _ = open_store(after_kill(where, tmp_path / "killed"))
    repeats = append(make(restarted), *(batch(b"a", producer=(7, 0, at)) for at in range(5, 10)))
    assert [each.base_offset for each in repeats] == [5, 6, 7, 8, 9]


def test_sequences_survive_a_clean_end(where):
    store, _ = open_store(where)
    append(make(store), batch(b"a", b"b", producer=(7, 3, 0)))
    store.close()
    store, _ = open_store(where)
    log = make(store)
    (again,) = append(log, batch(b"a", b"b", producer=(7, 3, 0)))
    assert again.duplicate
    append(log, batch(b"a", producer=(7, 3, 2)))
    store.close()


def test_sequences_survive_the_loss_of_every_snapshot(store, where, tmp_path):
    log = make(store, segment_bytes=500)
    for at in range(20):
        append(log, batch(b"a", producer=(7, 0, at)))
    killed = after_kill(where, tmp_path / "killed")
    for path in killed.glob("*/*.snapshot"):
        path.unlink()
    restarted, _ = open_store(killed)
    append(make(restarted), batch(b"a", producer=(7, 0, 20)))


def test_a_producer_s_state_goes_when_it_expires(store, log):
    append(log, batch(b"a", producer=(7, 0, 0)), now=NOW)
    day = store.config.producer_id_expiration_ms
    run_through(store.expire_producers(NOW + day - 1))
    assert len(log.producers) == 1
    run_through(store.retention(NOW + day))
    assert len(log.producers) == 1
    run_through(store.expire_producers(NOW + day))
    assert len(log.producers) == 0
    append(log, batch(b"a", producer=(7, 0, 55)))


@pytest.mark.parametrize(("count", "left"), [(-1, -1), (0, 0), (1, 1 - MAX_PRODUCERS // 8)])
def test_of_so_many_producers_those_idle_longest_are_evicted(count, left):
    producers = ProducerStates()
    for producer_id in range(MAX_PRODUCERS + count):
        producers.add(producer_id, 0, BatchMetadata(0, 0, 0, 0, NOW), NOW + producer_id)
    assert len(producers) == MAX_PRODUCERS + left
    assert (producers.get(0) is None) is (count > 0) and producers.get(MAX_PRODUCERS - 2) is not None


def test_a_producer_that_was_evicted_goes_on_with_any_sequence():
    producers = ProducerStates()
    producers.add(7, 0, BatchMetadata(0, 0, 0, 0, NOW), NOW)
    producers.settle()
    for producer_id in range(100, 100 + MAX_PRODUCERS):
        producers.add(producer_id, 0, BatchMetadata(0, 0, 0, 0, NOW), NOW + 1)
    assert producers.get(7) is None and producers.check(7, 0, 5, 0) is None
    producers.undo()
    assert len(producers) == 0


@pytest.mark.parametrize(("others", "code"), [(MAX_PRODUCERS - 1, True), (MAX_PRODUCERS, False)])
def test_as_many_refused_producers_are_remembered_as_known_ones(others: int, code: bool):
    producers = ProducerStates()
    producers.refuse(7, 0, 3)
    for producer_id in range(100, 100 + others):
        producers.refuse(producer_id, 0, 3)
    if code:
        assert refusal(producers, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    else:
        assert producers.check(7, 0, 4, 0) is None


def test_a_refused_batch_of_a_known_producer_changes_nothing():
    producers = ProducerStates()
    add(producers, 0, 1)
    producers.refuse(7, 0, 5)
    assert producers.check(7, 0, 1, 0) is None
    assert refusal(producers, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
