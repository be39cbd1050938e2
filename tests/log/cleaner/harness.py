"""Shared helpers of the compaction tests: keyed records, transactions, and a whole pass without tasks."""

from typing import Any

from broker.log.cleaner.cleaning import Cleaning, CleaningLimits
from broker.log.cleaner.manager import CleanerManager, LastRun
from broker.log.cleaner.pace import Pace
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.control import Marker
from broker.records.header import TRANSACTIONAL_FLAG, BatchHeader, header_at
from broker.records.walk import Record, batches, records
from tests.log.harness import NOW, bytes_from, make

LIMITS = CleaningLimits(map_bytes=1_048_576, load_factor=0.9, read_bytes=4_096)

Pair = tuple[str, str | None]


def compacted(store: LogStore, **settings: Any) -> PartitionLog:
    """A log that rolls often and keeps no tombstone longer than a pass."""
    defaults = {"cleanup_policy": ("compact",), "segment_bytes": 1_000, "index_interval_bytes": 200}
    return make(store, **{**defaults, **settings})


def keyed(
    *pairs: Pair,
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> memoryview:
    new = [
        NewRecord(key.encode(), None if value is None else value.encode(), timestamp + at)
        for at, (key, value) in enumerate(pairs)
    ]
    producer_id, epoch, sequence = producer
    return build_batch(
        new,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
    )


def put(log: PartitionLog, *pairs: Pair, **more: Any) -> int:
    """Append one batch and return its base offset."""
    staged = log.stage(keyed(*pairs, **more), now_wall_ms=NOW)
    assert log.commit()
    return staged.base_offset


def put_in_transaction(log: PartitionLog, producer: tuple[int, int, int], *pairs: Pair, **more: Any) -> int:
    made = keyed(*pairs, producer=producer, attributes=TRANSACTIONAL_FLAG, **more)
    staged = log.stage(made, now_wall_ms=NOW, transactional=True)
    assert log.commit()
    return staged.base_offset


def end(log: PartitionLog, producer_id: int, epoch: int = 0, *, is_commit: bool) -> int:
    staged = log.stage_marker(Marker(is_commit, 0), producer_id, epoch, NOW)
    assert log.commit()
    return staged.base_offset


def close_segment(log: PartitionLog) -> None:
    log.roll()


def clean(
    store: LogStore,
    log: PartitionLog,
    now: int = NOW,
    limits: CleaningLimits = LIMITS,
    manager: CleanerManager | None = None,
) -> LastRun:
    """Run one pass over everything that can be cleaned, whether it is due or not, and note it."""
    manager = manager or CleanerManager(store)
    part = manager.assess(log, now)
    cleaning = Cleaning(part, limits, now, Pace(lambda: None))
    for _ in cleaning.index():
        pass
    for group in cleaning.groups():
        copy = cleaning.begin(group)
        for _ in cleaning.write(copy):
            pass
        store.remove_later(log, copy.replace(), now)
    run = LastRun(now, part.first_dirty, cleaning.end_offset, cleaning.stats)
    manager.done(part, run, 0)
    return run


def headers(log: PartitionLog) -> list[BatchHeader]:
    """Return the headers of all batches that a reader gets, empty ones too."""
    offset, found = log.log_start_offset, []
    while offset < log.high_watermark:
        for each in batches(bytes_from(log, offset)):
            found.append(header_at(each))
            offset = found[-1].last_offset + 1
    return found


def contents(log: PartitionLog) -> list[Record]:
    """Return all records but markers."""
    offset, found = log.log_start_offset, []
    while offset < log.high_watermark:
        for each in batches(bytes_from(log, offset)):
            header = header_at(each)
            if not header.is_control:
                found += list(records(each))
            offset = header.last_offset + 1
    return found


def pairs(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """Return (offset, key, value) of all records but markers."""
    return [
        (each.offset, (each.key or b"").decode(), None if each.value is None else each.value.decode())
        for each in contents(log)
    ]
