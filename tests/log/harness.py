"""Shared helpers of the log tests: batches, stores in a temporary directory, the state after a kill -9."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from broker.common.slices import run_through
from broker.config.sections.log import LogConfig
from broker.config.sections.topics import TopicSettings
from broker.log.partition import PartitionLog
from broker.log.recovery import Recovery
from broker.log.staged import Staged
from broker.log.store import LogStore
from broker.records.build import NewRecord, build_batch
from broker.records.walk import Record, batches, records

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def batch(*values: bytes, timestamp: int = NOW, producer: tuple[int, int, int] | None = None) -> memoryview:
    """Build one record per value, a millisecond apart; `producer` is (id, epoch, base sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    new = [NewRecord(None, value, timestamp + at) for at, value in enumerate(values)]
    return build_batch(new, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def sized(size: int, *, timestamp: int = NOW) -> memoryview:
    """Build one record in a batch of exactly `size` bytes."""
    for guess in range(max(size - 90, 0), size):
        made = batch(b"x" * guess, timestamp=timestamp)
        if len(made) == size:
            return made
    raise ValueError(f"no batch has {size} bytes")


def open_store(where: Path, **config: Any) -> tuple[LogStore, Recovery]:
    store = LogStore(LogConfig(dirs=(str(where),), **config))
    return store, store.open()


def make(store: LogStore, topic: str = "events", index: int = 0, **settings: Any) -> PartitionLog:
    return store.create_partition(topic, TOPIC_ID, index, TopicSettings(**settings))


def append(log: PartitionLog, *made: memoryview, now: int = NOW) -> list[Staged]:
    """Stage together and commit at once."""
    staged = [log.stage(each, now_wall_ms=now) for each in made]
    assert log.commit()
    return staged


def fill(log: PartitionLog, count: int, *, size: int = 100, step_ms: int = 10) -> None:
    """Append batches of one record each, one commit per batch."""
    for at in range(count):
        append(log, sized(size, timestamp=NOW + at * step_ms))


def after_kill(where: Path, to: Path) -> Path:
    """Copy the files as the next process would find them after a kill now."""
    shutil.copytree(where, to)
    return to


def bytes_from(log: PartitionLog, offset: int, max_bytes: int = 1_000_000) -> bytes:
    return log.read(offset, max_bytes, min_one_batch=True).read()


def all_records(log: PartitionLog, max_bytes: int = 10_000) -> list[Record]:
    """Return the records as a consumer reads them, with the CRC checked."""
    offset, found = log.log_start_offset, []
    while offset < log.high_watermark:
        run = list(batches(bytes_from(log, offset, max_bytes)))
        if not run:
            break
        for each in run:
            found += [record for record in records(each) if record.offset >= offset]
        offset = found[-1].offset + 1
    return found


def offsets(found: Iterable[Record]) -> list[int]:
    return [record.offset for record in found]


def log_files(where: Path, topic: str = "events", index: int = 0, suffix: str = ".log") -> list[Path]:
    return sorted((where / f"{topic}-{index}").glob(f"*{suffix}"))


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> tuple[int, int] | None:
    return run_through(log.offset_for_timestamp(timestamp))


def max_timestamp(log: PartitionLog) -> tuple[int, int] | None:
    return run_through(log.max_timestamp())
