"""A log that holds the last value of each key, rewritten when most records are obsolete."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.sections import LogConfig, TopicSettings
from broker.log.partition import PartitionLog
from broker.log.segment import Segment
from broker.log.store import LogStore
from broker.services.offsets_log import SPARE, OffsetsLog

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


def write(offsets: OffsetsLog, store: LogStore, *records: tuple[bytes, bytes | None]) -> None:
    staged = offsets.stage(records, WALL_MS)
    store.commit()
    assert all(each.error is None for each in staged)
    offsets.keep(records)
    offsets.tidy(WALL_MS, store.commit)


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


def test_many_records_are_written_in_several_batches(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    records = [(str(number).encode(), bytes(100_000)) for number in range(20)]
    assert len(offsets.stage(records, WALL_MS)) == 7
    store.commit()
    assert values_of(log) == dict(records)


def test_values_are_written_again_when_enough_no_longer_counts(store: LogStore, log: PartitionLog) -> None:
    offsets = OffsetsLog(log)
    fill(offsets, store, SPARE - 1)
    assert log.high_watermark == SPARE - 1
    write(offsets, store, (b"a", b"last"))
    assert log.high_watermark == SPARE + 1
    write(offsets, store, (b"a", b"very last"))
    assert log.high_watermark == SPARE + 2


def test_what_came_before_is_deleted_once_the_rest_is_on_the_disk(store: LogStore, log: PartitionLog) -> None:
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
    append = Segment.append
    calls = 0

    def refuse_the_second(segment: Segment, *arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device")
        append(segment, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "append", refuse_the_second)
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
