"""A log that holds the last value of each key, rewritten when most records are obsolete."""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections import LogConfig, TopicSettings
from broker.coordinator.offsets_log import BATCH, REWRITTEN_AT_ONCE, SPARE, OffsetsLog
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.records.control import Marker
from tests.log.cleaner.harness import clean

WALL_MS = 1_700_000_000_000
TOPIC_ID = bytes(15) + b"\1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    opened = LogStore(LogConfig(dirs=(str(tmp_path),)))
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def log(store: LogStore) -> PartitionLog:
    return store.create_partition("__consumer_offsets", TOPIC_ID, 0, TopicSettings(flush_ms=60_000))


def write(
    offsets: OffsetsLog, store: LogStore, *records: tuple[bytes, bytes | None], at_ms: int = WALL_MS
) -> None:
    staged = offsets.stage(records, at_ms)
    store.commit()
    assert all(each.error is None for each in staged)
    offsets.keep(records)
    offsets.tidy(at_ms, store.commit)


def fill(offsets: OffsetsLog, store: LogStore, until: int) -> None:
    """Write key a repeatedly up to, but not including, offset `until`."""
    while (left := until - offsets.log.high_watermark) > 0:
        write(offsets, store, *[(b"a", str(number).encode()) for number in range(min(left, 5_000))])


def flush(log: PartitionLog) -> None:
    chore = log.flush(0)
    chore.run()
    chore.finish()


def values_of(log: PartitionLog) -> dict[bytes, bytes]:
    again = OffsetsLog(log)
    again.read()
    return again.values


def test_the_last_value_of_each_key_is_read(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    write(offsets, store, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    write(offsets, store, (b"a", b"2"))
    write(offsets, store, (b"b", None))
    assert values_of(log) == offsets.values == {b"a": b"2", b"c": b"1"}


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([100_000] * 20, 10),
        ([BATCH - 2, 0], 1),
        ([BATCH - 1, 0], 2),
        ([100_000, 1_000_000], 2),
        ([1_000_000, 100_000], 2),
    ],
)
def test_many_records_are_written_in_several_batches(
    store: LogStore, log: PartitionLog, sizes: list[int], batches: int
) -> None:
    """The keys have a byte or two. No batch of several records is larger than a record may be."""
    offsets = OffsetsLog(log)
    records = [(str(number).encode(), bytes(size)) for number, size in enumerate(sizes)]
    assert len(offsets.stage(records, WALL_MS)) == batches
    store.commit()
    assert values_of(log) == dict(records)


def test_a_value_above_the_maximum_is_refused_before_anything_is_staged(
    store: LogStore, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = OffsetsLog(log)
    most = log.settings.max_message_bytes
    monkeypatch.setattr("broker.coordinator.offsets_log.build_batch", None)
    with pytest.raises(ApiError) as refused:
        offsets.stage([(b"a", b"1"), (b"b", bytes(most + 1))], WALL_MS)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("spare", [100, -1])
def test_a_value_of_about_the_maximum_is_written_if_its_batch_fits(
    store: LogStore, log: PartitionLog, spare: int
) -> None:
    offsets = OffsetsLog(log)
    records = [(b"a", bytes(log.settings.max_message_bytes - spare))]
    if spare > 0:
        write(offsets, store, *records)
        assert values_of(log) == dict(records)
    else:
        with pytest.raises(ApiError, match="bytes"):
            offsets.stage(records, WALL_MS)


def test_values_are_written_again_when_enough_no_longer_counts(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    fill(offsets, store, SPARE - 1)
    assert log.high_watermark == SPARE - 1
    write(offsets, store, (b"a", b"last"))
    assert log.high_watermark == SPARE + 1
    write(offsets, store, (b"a", b"very last"))
    assert log.high_watermark == SPARE + 2


def test_earlier_records_are_deleted_once_the_rest_is_on_the_disk(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    write(offsets, store, (b"b", b"stays"))
    fill(offsets, store, SPARE)
    assert (log.high_watermark, log.log_start_offset) == (SPARE + 2, 0)
    offsets.tidy(WALL_MS, store.commit)
    assert log.log_start_offset == 0
    flush(log)
    offsets.tidy(WALL_MS, store.commit)
    assert (log.high_watermark, log.log_start_offset) == (SPARE + 2, SPARE)
    assert values_of(log) == offsets.values == {b"b": b"stays", b"a": b"4998"}


def test_the_next_time_comes_after_as_many_again(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    fill(offsets, store, SPARE)
    flush(log)
    offsets.tidy(WALL_MS, store.commit)
    fill(offsets, store, 2 * SPARE)
    assert (log.high_watermark, log.log_start_offset) == (2 * SPARE, SPARE)
    fill(offsets, store, 2 * SPARE + 1)
    assert log.high_watermark == 2 * SPARE + 2


def test_a_disk_that_refuses_is_asked_again_later_and_nothing_is_lost(
    store: LogStore, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = OffsetsLog(log)
    fill(offsets, store, SPARE - 1)
    write_at = disk.write_at
    calls = 0

    def refuse_the_second(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")
        return write_at(*arguments)

    monkeypatch.setattr(disk, "write_at", refuse_the_second)
    write(offsets, store, (b"a", b"last"))
    write(offsets, store, (b"a", b"very last"))
    assert calls == 3
    flush(log)
    offsets.tidy(WALL_MS, store.commit)
    assert log.log_start_offset == 0
    assert values_of(log) == {b"a": b"very last"}


def test_a_log_that_grew_before_a_restart_is_written_again_soon(store: LogStore, log: PartitionLog) -> None:
    fill(OffsetsLog(log), store, SPARE - 1)
    again = OffsetsLog(log)
    again.read()
    write(again, store, (b"a", b"1"))
    assert log.high_watermark == SPARE
    write(again, store, (b"a", b"2"))
    assert log.high_watermark == SPARE + 2


KEYS = {f"key-{number}".encode(): b"1" for number in range(3 * REWRITTEN_AT_ONCE)}


@pytest.mark.parametrize(("over", "commits"), [(-1, 3), (0, 3), (1, 4)])
def test_many_values_are_written_again_some_with_each_commit(
    store: LogStore, log: PartitionLog, over: int, commits: int
) -> None:
    keys = {f"key-{number}".encode(): b"1" for number in range(len(KEYS) - 1 + over)}
    offsets = OffsetsLog(log)
    write(offsets, store, *keys.items())
    fill(offsets, store, SPARE)
    end = SPARE
    for at_ms in range(1, commits + 1):
        expected = min(len(keys) + 1 - (at_ms - 1) * REWRITTEN_AT_ONCE, REWRITTEN_AT_ONCE)
        assert log.high_watermark == end + expected
        end = log.high_watermark + 1
        write(offsets, store, (b"a", b"again"), at_ms=WALL_MS + at_ms)
    flush(log)
    offsets.tidy(WALL_MS + commits, store.commit)
    assert (log.high_watermark, log.log_start_offset) == (end, SPARE)
    assert values_of(log) == offsets.values == keys | {b"a": b"again"}


@pytest.mark.parametrize(
    ("size", "at_once"), [(BATCH // 4 - 5, 4), (BATCH // 4 - 4, 3), (BATCH - 5, 1), (1_000_000, 1)]
)
def test_fewer_large_values_are_written_again_with_a_commit(
    store: LogStore, log: PartitionLog, size: int, at_once: int
) -> None:
    offsets = OffsetsLog(log)
    write(offsets, store, *((f"key-{number}".encode(), bytes(size)) for number in range(8)))
    fill(offsets, store, SPARE)
    end = log.high_watermark
    offsets.tidy(WALL_MS + 1, store.commit)
    assert log.high_watermark == end + at_once


def test_of_the_commits_of_a_millisecond_one_continues_a_rewrite(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    write(offsets, store, *KEYS.items())
    fill(offsets, store, SPARE)
    end = log.high_watermark
    for _ in range(3):
        offsets.tidy(WALL_MS, store.commit)
    assert log.high_watermark == end
    offsets.tidy(WALL_MS + 1, store.commit)
    assert log.high_watermark == end + REWRITTEN_AT_ONCE


def test_values_changed_during_a_rewrite_are_the_last_after_it(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    write(offsets, store, *KEYS.items())
    fill(offsets, store, SPARE)
    first, second, *_, last = KEYS
    changes = ((first, b"2"), (second, None), (last, None), (b"new", b"1"))
    write(offsets, store, *changes, at_ms=WALL_MS + 1)
    for at_ms in range(2, 6):
        offsets.tidy(WALL_MS + at_ms, store.commit)
        flush(log)
    assert log.log_start_offset == SPARE
    expected = KEYS | {first: b"2", b"new": b"1", b"a": offsets.values[b"a"]}
    del expected[second], expected[last]
    assert values_of(log) == offsets.values == expected


def pend(offsets: OffsetsLog, store: LogStore, producer: int, *records: tuple[bytes, bytes]) -> None:
    staged = offsets.stage(records, WALL_MS, producer=(producer, 0))
    store.commit()
    assert all(each.error is None for each in staged)
    offsets.pend(producer, records)


def mark(offsets: OffsetsLog, store: LogStore, producer: int, *, is_commit: bool) -> None:
    offsets.log.stage_marker(Marker(is_commit, 0), producer, 0, WALL_MS)
    store.commit()
    offsets.end_transaction(producer, is_commit=is_commit)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_rewrite_waits_for_what_an_open_transaction_wrote(
    store: LogStore, log: PartitionLog, is_commit: bool
) -> None:
    """The old value, written again after the pending one, would supersede it."""
    offsets = OffsetsLog(log)
    write(offsets, store, (b"k", b"old"))
    pend(offsets, store, 7, (b"k", b"new"))
    assert values_of(log) == {b"k": b"old"}
    fill(offsets, store, SPARE + 2)
    for at_ms in (1, 2):
        write(offsets, store, (b"a", b"last"), at_ms=WALL_MS + at_ms)
        flush(log)
    assert log.log_start_offset == 0 and values_of(log) == {b"k": b"old", b"a": b"last"}
    mark(offsets, store, 7, is_commit=is_commit)
    for at_ms in (3, 4):
        write(offsets, store, (b"a", b"last"), at_ms=WALL_MS + at_ms)
        flush(log)
    assert log.log_start_offset == 1  # where the transaction begins
    expected = {b"a": b"last", b"k": b"new" if is_commit else b"old"}
    assert values_of(log) == offsets.values == expected


def test_a_rewrite_does_not_wait_for_what_is_superseded(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    pend(offsets, store, 7, (b"k", b"pending"))
    write(offsets, store, (b"k", b"later"))
    fill(offsets, store, SPARE + 2)
    for at_ms in (1, 2):
        write(offsets, store, (b"a", b"last"), at_ms=WALL_MS + at_ms)
        flush(log)
    assert offsets.log.high_watermark > SPARE + 4  # both keys were written again
    mark(offsets, store, 7, is_commit=True)
    assert values_of(log) == offsets.values == {b"k": b"later", b"a": b"last"}


@pytest.mark.parametrize("order", list(permutations(["first", "second", "outside"])))
@pytest.mark.parametrize("ends", [(7, 8), (8, 7)])
def test_the_record_that_was_written_last_counts(
    store: LogStore, log: PartitionLog, order: tuple[str, ...], ends: tuple[int, int]
) -> None:
    """Whichever transaction ends first, and after a restart too."""
    offsets = OffsetsLog(log)
    for each in order:
        if each == "outside":
            write(offsets, store, (b"k", b"outside"))
        else:
            pend(offsets, store, 7 if each == "first" else 8, (b"k", each.encode()))
    again = OffsetsLog(log)
    again.read()
    assert list(again.pending) == list(offsets.pending)
    for producer in ends:
        mark(offsets, store, producer, is_commit=True)
    assert values_of(log) == offsets.values == {b"k": order[-1].encode()}


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_tombstone_ends_what_open_transactions_wrote(
    store: LogStore, log: PartitionLog, is_deleted: bool
) -> None:
    offsets = OffsetsLog(log)
    for producer in (7, 8):
        offsets.stage([(b"k", b"new"), (b"l", b"%d" % producer)], WALL_MS, producer=(producer, 0))
        store.commit()
        offsets.pend(producer, [(b"k", b"new"), (b"l", b"%d" % producer)])
    if is_deleted:
        write(offsets, store, (b"k", None))
    for producer in (7, 8):
        log.stage_marker(Marker(True, 0), producer, 0, WALL_MS)
        store.commit()
        offsets.end_transaction(producer, is_commit=True)
    expected = {b"l": b"8"} if is_deleted else {b"k": b"new", b"l": b"8"}
    assert values_of(log) == offsets.values == expected


def test_a_tombstone_leaves_other_keys_of_its_transactions(log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    for producer in (7, 8, 9):
        offsets.pend(producer, [(b"k" if producer < 9 else b"l", b"%d" % producer)])
    offsets.keep([(b"none", None), (b"k", None), (b"k", None)])
    assert list(offsets.pending) == [(9, b"l", b"9")]
    for producer in (7, 8, 9):
        offsets.end_transaction(producer, is_commit=True)
    assert offsets.values == {b"l": b"9"} and not offsets.pending
    offsets.keep([(b"l", None)])
    assert not offsets.values


def test_a_tombstone_within_a_transaction_applies_at_once(log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    offsets.keep([(b"k", b"old")])
    offsets.pend(7, [(b"k", b"new")])
    offsets.pend(8, [(b"k", None)])
    assert not offsets.values and not offsets.pending


def test_a_compacted_log_has_the_same_values_and_open_transactions(store: LogStore) -> None:
    log = store.create_partition(
        "__consumer_offsets", TOPIC_ID, 0, TopicSettings(cleanup_policy=("compact",), segment_bytes=2_000)
    )
    offsets = OffsetsLog(log)
    for number in range(200):
        value = None if number % 7 == 3 else b"%d" % number
        write(offsets, store, (b"key-%d" % (number % 11), value))
        if number % 20 == 9:
            producer = number // 20, 0
            offsets.stage([(b"in-%d" % (number % 3), b"t%d" % number)], WALL_MS, producer)
            store.commit()
            log.stage_marker(Marker(number % 40 == 9, 0), *producer, WALL_MS)
            store.commit()
    offsets.stage([(b"open", b"1")], WALL_MS, (99, 0))
    store.commit()
    before = OffsetsLog(log)
    before.read()
    size = log.size
    run = clean(store, log)
    assert run.stats.records_written < run.stats.records_read and log.size < size / 2
    after = OffsetsLog(log)
    after.read()
    assert (after.values, list(after.pending)) == (before.values, list(before.pending))
    assert list(after.pending) == [(99, b"open", b"1")]
