"""Each kind of damage to each kind of file of a log directory, after a clean stop and after a kill.

Every record is served as it was written, or what is not served is told in a line that names the file.

Readers of committed records never see an aborted one, and nobody sees a record that was not written.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from broker.common.errors import ApiError
from broker.config.sections.log import LogConfig
from broker.config.sections.topics import TopicSettings
from broker.log import disk
from broker.log.checkpoints import write_offsets
from broker.log.layout import (
    CLEAN_SHUTDOWN,
    CLEANER_POINTS,
    COPY,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
)
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.records.build import NewRecord, build_batch
from broker.records.control import Marker, marker_of
from broker.records.header import TRANSACTIONAL_FLAG, header_at
from broker.records.walk import batches, records
from broker.server.disk.stores import open_logs
from tests.log.harness import NOW, append, make, offset_for_timestamp, open_store, sized

SETTINGS: Final = {"segment_bytes": 1_100, "index_interval_bytes": 200}
IDEMPOTENT: Final = 77
OPEN: Final = 5
"""Producer ids: of the partition `plain`, and of the transaction that is still open."""

RECORDS: Final = 24
TRIMMED_TO: Final = 15


def transactional(producer_id: int, sequence: int, value: bytes, timestamp: int) -> memoryview:
    return build_batch(
        [NewRecord(None, value, timestamp)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )


def fill(where: Path) -> LogStore:
    """`moved`: transactions, every other one aborted, and one that is open. `plain`: an idempotent producer,
    with records of one timestamp in the middle. `trimmed`: the first records are deleted.
    """
    store, _ = open_store(where)
    moved, plain, trimmed = (make(store, name, **SETTINGS) for name in ("moved", "plain", "trimmed"))
    for number in range(RECORDS):
        now = NOW + 10 * number
        value = b"%d " % number + b"x" * 120
        append_transactional(moved, transactional(number % 4, number // 4, value, now), now)
        moved.stage_marker(Marker(number % 2 == 0, 0), number % 4, 0, now)
        moved.commit()
        if number == 20:
            append_transactional(moved, transactional(OPEN, 0, b"open", now), now)
        stamp = NOW + 10 * (number if number < 8 else 8 if number < 18 else number)
        append(plain, idempotent(number, stamp))
        append(trimmed, sized(150, timestamp=now))
    trimmed.delete_records_before(TRIMMED_TO)
    for log in (moved, plain, trimmed):
        assert len(log.segments) > 3
    return store


def idempotent(number: int, stamp: int) -> memoryview:
    return build_batch(
        [NewRecord(None, b"%d " % number + b"y" * 130, stamp)],
        producer_id=IDEMPOTENT,
        producer_epoch=0,
        base_sequence=number,
    )


def append_transactional(log: PartitionLog, batch: memoryview, now: int) -> None:
    log.stage(batch, now_wall_ms=now, transactional=True)
    assert log.commit()


class State(NamedTuple):
    """What clients see of a partition.

    `seen` are offsets and values, with markers as None; `times` the offsets found by timestamps, and `newest`
    the greatest of each segment, by which retention deletes.
    """

    start: int
    end: int
    stable: int
    seen: dict[int, bytes | None]
    committed: dict[int, bytes | None]
    times: list[tuple[int, int] | None]
    newest: list[int]


def state_of(log: PartitionLog) -> State:
    return State(
        log.log_start_offset,
        log.high_watermark,
        log.last_stable_offset,
        dict(consume(log, committed=False)),
        dict(consume(log, committed=True)),
        [offset_for_timestamp(log, NOW + 25 * step) for step in range(16)],
        [segment.newest()[0] for segment in log.segments if segment.size],
    )


def consume(log: PartitionLog, *, committed: bool) -> Iterator[tuple[int, bytes | None]]:
    """Read as a consumer does, which skips the transactions that each response names."""
    offset, end = log.log_start_offset, log.last_stable_offset if committed else log.high_watermark
    while offset < end:
        offset = log.past_gap(offset)
        read = log.read_committed if committed else log.read
        data = read(offset, 700, min_one_batch=True).read()
        if not data:
            return
        aborted = sorted(log.aborted_in(offset, len(data)), key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for batch in batches(data):
            header = header_at(batch)
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if header.is_control:
                marker = marker_of(batch)
                assert marker is not None
                if not marker.is_commit:
                    skipped.discard(header.producer_id)
                found: list[tuple[int, bytes | None]] = [(header.base_offset, None)]
            else:
                found = [(each.offset, each.value) for each in records(batch)]
            is_skipped = committed and header.producer_id in skipped and not header.is_control
            if not is_skipped:
                yield from (each for each in found if each[0] >= offset)
            following = header.last_offset + 1
        offset = following


# What happens to a file. Each gets its path.


def flip(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        if content:
            content[min(int(at * len(content)), len(content) - 1)] ^= 0x10
        path.write_bytes(content)

    return damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def extend(tail: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes() + tail) and None


SLOW: Final = ("bit near the end", "last bit", "zeros behind", "directory")
KINDS: Final[dict[str, Callable[[Path], None]]] = {
    "first bit": flip(0),
    "bit in the middle": flip(0.5),
    "bit near the end": flip(0.93),
    "last bit": flip(1),
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b"") and None,
    "removed": Path.unlink,
    "zeros behind": extend(bytes(100)),
    "garbage behind": extend(bytes(range(7, 107))),
    "directory": become_a_directory,
}


DAMAGE: Final = [
    pytest.param(each, id=name, marks=pytest.mark.slow if name in SLOW else ())
    for name, each in KINDS.items()
]


def segment_file(topic: str, suffix: str, at: int) -> Callable[[Path], Path]:
    return lambda where: sorted((where / f"{topic}-0").glob(f"*{suffix}"))[at]


FILES: Final[dict[str, Callable[[Path], Path]]] = {
    "a closed .log": segment_file("moved", ".log", 1),
    "the active .log": segment_file("moved", ".log", -1),
    "a closed .index": segment_file("plain", ".index", 1),
    "a closed .index with transactions": segment_file("moved", ".index", 1),
    "the active .index": segment_file("moved", ".index", -1),
    "a closed .timeindex": segment_file("plain", ".timeindex", 1),
    "the last closed .timeindex": segment_file("plain", ".timeindex", -2),
    "the active .timeindex": segment_file("plain", ".timeindex", -1),
    "a closed .txnindex": segment_file("moved", ".txnindex", 1),
    "the active .txnindex": segment_file("moved", ".txnindex", -1),
    "a closed .indexrecord": segment_file("moved", ".indexrecord", 1),
    "the first .snapshot": segment_file("moved", ".snapshot", 0),
    "the last .snapshot": segment_file("moved", ".snapshot", -1),
    "the last .snapshot without transactions": segment_file("plain", ".snapshot", -1),
    LEADER_EPOCHS: lambda where: where / "plain-0" / LEADER_EPOCHS,
    PARTITION_METADATA: lambda where: where / "plain-0" / PARTITION_METADATA,
    RECOVERY_POINTS: lambda where: where / RECOVERY_POINTS,
    RECOVERY_POINTS + COPY: lambda where: where / (RECOVERY_POINTS + COPY),
    START_OFFSETS: lambda where: where / START_OFFSETS,
    START_OFFSETS + COPY: lambda where: where / (START_OFFSETS + COPY),
    CLEANER_POINTS: lambda where: where / CLEANER_POINTS,
    CLEANER_POINTS + COPY: lambda where: where / (CLEANER_POINTS + COPY),
    CLEAN_SHUTDOWN: lambda where: where / CLEAN_SHUTDOWN,
}

LOSES_RECORDS: Final = ("a closed .log", "the active .log")


class Written(NamedTuple):
    """Log directories after a stop, by how it stopped, and what clients saw."""

    directories: dict[str, Path]
    states: dict[str, State]


@pytest.fixture(autouse=True)
def no_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of stops, and no power failure."""
    monkeypatch.setattr(disk, "flush_file_system", lambda _path: None)
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    where = tmp_path_factory.mktemp("damage")
    store = fill(where / "clean")
    (job,) = [store.checkpoint()]
    for log in store:
        flushed = log.flush(NOW, sealed_only=True)
        flushed.run()
        flushed.finish()
    job.run()
    store.directories.of(next(iter(store))).cleaner_points.set(("plain", 0), 3)
    states = {log.topic: state_of(log) for log in store}
    shutil.copytree(where / "clean", where / "killed")
    store.close()
    return Written({"clean": where / "clean", "killed": where / "killed"}, states)


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_what_was_written_is_read(written: Written, stop: str, tmp_path: Path, caplog: Any) -> None:
    shutil.copytree(written.directories[stop], tmp_path / "data")
    for _ in range(2):
        store = reopened(tmp_path / "data")
        assert {log.topic: state_of(log) for log in store} == written.states
        store.close()
    assert [each.message for each in caplog.records] == ["the last stop was not clean"] * (stop == "killed")
    moved = written.states["moved"]
    assert moved.stable < moved.end and len(moved.committed) < len(moved.seen)


def reopened(where: Path) -> LogStore:
    store = open_logs(LogConfig(dirs=(str(where),)), TopicSettings(**SETTINGS))
    for log in store:
        log.configure(TopicSettings(**SETTINGS))
    return store


@pytest.mark.rotates
@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_damage_is_mended_or_reported(
    written: Written,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    file: str,
    damage: Callable[[Path], None],
    stop: str,
) -> None:
    where = tmp_path / "data"
    shutil.copytree(written.directories[stop], where)
    try:
        path = FILES[file](where)
    except IndexError:
        pytest.skip("there is no such file")
    if not path.exists():
        assert (file, stop) == (CLEAN_SHUTDOWN, "killed")
        return
    damage(path)
    check(where, written, caplog, may_lose=file in LOSES_RECORDS, names=path.name)


def check(
    where: Path,
    written: Written,
    caplog: pytest.LogCaptureFixture,
    *,
    names: str,
    may_lose: bool = False,
) -> None:
    """Compare what clients see; a refusal must name the file. A second start has nothing left to tell."""
    try:
        store = reopened(where)
    except OSError as error:
        refused = str(error)
        assert names in refused
        return
    reported: list[str] = []
    store.on_offline(lambda log: reported.append(f"offline: {log.offline}"))
    states = {log.topic: read_state(log) for log in store}
    reported += [f"{each.message} {vars(each)}" for each in caplog.records]
    for topic, expected in written.states.items():
        if (found := states[topic]) is None:
            assert any("offline" in each and names in each for each in reported), (topic, reported)
        else:
            compare(topic, found, expected, reported if may_lose else None)
    online = [log for log in store if log.offline is None]
    if not may_lose:
        for log in online:
            append_once_more(log)
    states = {log.topic: read_state(log) for log in online}
    store.close()
    if may_lose or len(online) < len(written.states):
        return
    caplog.clear()
    store = reopened(where)
    assert {log.topic: read_state(log) for log in store} == states
    assert [each.message for each in caplog.records] == []
    store.close()


def read_state(log: PartitionLog) -> State | None:
    try:
        return state_of(log)
    except ApiError:
        assert log.offline is not None
        return None


def compare(topic: str, found: State, expected: State, reported: list[str] | None) -> None:
    if reported is None:
        assert found == expected, topic
        return
    assert found.seen.items() <= expected.seen.items()
    assert found.committed.items() <= expected.committed.items()
    if found.seen != expected.seen:
        # After a kill, records that were not flushed may be gone without a trace, as after a power failure.
        words = ("damaged records", "are missing", "truncated", "not clean")
        assert any(word in each for each in reported for word in words), topic


def append_once_more(log: PartitionLog) -> None:
    """A retry of the last batch is recognized, and the next one is appended."""
    if log.topic == "plain":
        again = log.stage(idempotent(RECORDS - 1, NOW), now_wall_ms=NOW)
        assert again.duplicate and again.base_offset == RECORDS - 1
        append(log, idempotent(RECORDS, NOW))
    else:
        append(log, sized(150))


def offset_file(value: int, *, proven: bool) -> Callable[[Path], None]:
    """Write another offset of `trimmed`, and a matching copy, or none as earlier versions."""

    def damage(path: Path) -> None:
        text = f"0\n1\ntrimmed 0 {value}\n".encode()
        write_offsets(str(path), text)
        if not proven:
            path.with_name(path.name + COPY).unlink()

    return damage


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("value", [RECORDS + 1, 99_999_999, 2**63 - 1])
def test_a_log_start_offset_after_the_end_is_refused(
    written: Written, tmp_path: Path, caplog: pytest.LogCaptureFixture, value: int, stop: str
) -> None:
    where = tmp_path / "data"
    shutil.copytree(written.directories[stop], where)
    offset_file(value, proven=False)(where / START_OFFSETS)
    store = reopened(where)
    log = store.partition("trimmed", 0)
    assert log is not None and log.offline is not None
    (line,) = [vars(each) for each in caplog.records if each.message == "a partition is offline"]
    assert line["partition"] == "trimmed-0"
    assert f"the log start offset {value} is after the log end offset {RECORDS}" in line["reason"]
    assert str(where / START_OFFSETS) in line["reason"]
    store.close()


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize(("value", "end"), [(23, 24), (24, 24), (25, 25)])
def test_a_log_whose_deleted_records_were_lost_continues_at_its_start(
    written: Written, tmp_path: Path, value: int, end: int, stop: str
) -> None:
    """DeleteRecords was written, and a power failure took the records before that offset."""
    where = tmp_path / "data"
    shutil.copytree(written.directories[stop], where)
    offset_file(value, proven=True)(where / START_OFFSETS)
    store = reopened(where)
    log = store.partition("trimmed", 0)
    assert log is not None and (log.log_start_offset, log.high_watermark) == (value, end)
    (staged,) = append(log, sized(150))
    assert staged.base_offset == end
    store.close()


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("value", [-1, 23, 99_999_999, 2**70])
@pytest.mark.parametrize("name", [RECOVERY_POINTS, CLEANER_POINTS])
def test_an_offset_out_of_range_without_a_copy_loses_no_record(
    written: Written, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, value: int, stop: str
) -> None:
    """A recovery point after the end tells that flushed records are missing."""
    where = tmp_path / "data"
    shutil.copytree(written.directories[stop], where)
    offset_file(value, proven=False)(where / name)
    store = reopened(where)
    log = store.partition("trimmed", 0)
    assert log is not None and dict(consume(log, committed=False)) == written.states["trimmed"].seen
    is_reported = any(each.message == "records are missing" for each in caplog.records)
    assert is_reported == (name == RECOVERY_POINTS and value == 99_999_999)
    store.close()
