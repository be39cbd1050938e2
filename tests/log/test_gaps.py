"""Flushed records that are missing: startup finds the gap, and no fetch skips it silently."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.config.sections.topics import TopicSettings
from broker.log.partition import PartitionLog
from broker.log.recovery import Gap, Missing
from broker.log.store import LogStore
from tests.log.harness import (
    TOPIC_ID,
    after_kill,
    all_records,
    append,
    bytes_from,
    fill,
    log_files,
    make,
    offsets,
    open_store,
    sized,
)


def filled(where: Path) -> None:
    """Forty records in four segments of ten, and a clean shutdown."""
    store, _ = open_store(where)
    fill(make(store, segment_bytes=1_000), 40)
    store.close()
    assert [path.name for path in log_files(where)] == [f"{base:020d}.log" for base in (0, 10, 20, 30)]


def unclean(where: Path) -> None:
    """Remove the clean shutdown mark, keeping the recovery points of the last checkpoint."""
    (where / ".kafka_cleanshutdown").unlink()


def remove(path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut_at_a_border(path: Path) -> None:
    os.truncate(path, 700)


def cut_within_a_batch(path: Path) -> None:
    os.truncate(path, 750)


def cut_within_a_head(path: Path) -> None:
    os.truncate(path, 710)


CUTS: list[tuple[Callable[[Path], None], int]] = [
    (remove, 0),
    (empty, 0),
    (cut_at_a_border, 7),
    (cut_within_a_batch, 7),
    (cut_within_a_head, 7),
]


def refused(log: PartitionLog, offset: int) -> bool:
    try:
        return not bytes_from(log, offset, 1)
    except ApiError as error:
        return error.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("cut", "left"), CUTS, ids=[cut.__name__ for cut, _ in CUTS])
def test_a_gap_in_the_middle_is_found_and_fetches_inside_it_are_out_of_range(
    where: Path, is_clean: bool, cut: Callable[[Path], None], left: int
) -> None:
    filled(where)
    if not is_clean:
        unclean(where)
    cut(log_files(where)[1])
    store, recovery = open_store(where)
    log = make(store, segment_bytes=1_000)
    gap = Gap(10 + left, 20)
    assert recovery.missing == [Missing("events", 0, *gap)]
    assert (log.gaps, log.missing, list(store.gapped)) == ([gap], 10 - left, [log])
    assert [offset for offset in range(40) if refused(log, offset)] == list(range(*gap))
    assert log.past_gap(gap.start - 1) == gap.start - 1
    assert (log.past_gap(gap.start), log.past_gap(19), log.past_gap(20)) == (20, 20, 20)
    assert (log.log_start_offset, log.high_watermark) == (0, 40)
    assert append(log, sized(100))[0].base_offset == 40
    store.close()
    store, recovery = open_store(where)
    assert recovery.missing == [Missing("events", 0, *gap)], "a restart does not hide it"
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("cut", "left"), CUTS, ids=[cut.__name__ for cut, _ in CUTS])
def test_where_the_end_is_gone_the_log_goes_on_at_the_recovery_point(
    where: Path, is_clean: bool, cut: Callable[[Path], None], left: int
) -> None:
    filled(where)
    if not is_clean:
        unclean(where)
    cut(log_files(where)[3])
    for _ in range(2):
        store, recovery = open_store(where)
        log = make(store, segment_bytes=1_000)
        assert recovery.missing == [Missing("events", 0, 30 + left, 40)]
        assert [offset for offset in range(40) if refused(log, offset)] == list(range(30 + left, 40))
        assert (log.high_watermark, log.recovery_point) == (40, 40)
        store.close()
    store, _ = open_store(where)
    log = make(store, segment_bytes=1_000)
    assert append(log, sized(100))[0].base_offset == 40, "no offset is given out twice"
    assert len(bytes_from(log, 40)) == 100
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_without_gaps_has_none(where: Path, is_clean: bool) -> None:
    filled(where)
    if not is_clean:
        unclean(where)
    store, recovery = open_store(where)
    log = make(store)
    assert recovery.missing == [] and log.gaps == [] and not store.gapped
    assert offsets(all_records(log)) == list(range(40))
    store.close()


def test_the_end_of_a_segment_is_found_without_its_index(where: Path) -> None:
    filled(where)
    for path in log_files(where, suffix=".index"):
        path.write_bytes(os.urandom(64))
    store, recovery = open_store(where)
    assert recovery.missing == []
    store.close()


def test_a_flipped_byte_at_the_end_of_a_segment_is_damage_and_no_gap(where: Path) -> None:
    filled(where)
    path = log_files(where)[1]
    content = bytearray(path.read_bytes())
    content[916] ^= 1
    path.write_bytes(content)
    store, recovery = open_store(where)
    assert recovery.missing == []
    store.close()


def test_a_gap_is_forgotten_when_the_log_start_has_passed_it(where: Path) -> None:
    filled(where)
    remove(log_files(where)[1])
    store, _ = open_store(where)
    log = make(store)
    log.delete_records_before(19)
    assert log.gaps == [Gap(10, 20)] and list(store.gapped) == [log]
    log.delete_records_before(20)
    assert log.gaps == [] and not store.gapped
    store.close()
    store, recovery = open_store(where)
    assert recovery.missing == []
    store.close()


def test_a_gap_before_the_log_start_is_none(where: Path) -> None:
    filled(where)
    store, _ = open_store(where)
    make(store).delete_records_before(15)
    store.close()
    os.truncate(log_files(where)[1], 300)
    store, recovery = open_store(where)
    assert recovery.missing == [Missing("events", 0, 15, 20)]
    store.close()


def absent(where: Path, *, count: int = 1) -> tuple[LogStore, list[Missing]]:
    store, _ = open_store(where)
    return store, store.restore_absent("events", TOPIC_ID, count, TopicSettings())


def test_a_partition_whose_folder_is_gone_goes_on_where_its_records_ended(where: Path) -> None:
    filled(where)
    shutil.rmtree(where / "events-0")
    store, missing = absent(where)
    log = store.partition("events", 0)
    assert log is not None and missing == [Missing("events", 0, 0, 40)]
    assert (log.log_start_offset, log.high_watermark, log.missing) == (40, 40, 40)
    assert all(refused(log, offset) for offset in range(41))
    assert append(log, sized(100))[0].base_offset == 40
    store.close()
    store, missing = absent(where)
    log = store.partition("events", 0)
    assert log is not None and missing == []
    assert (log.log_start_offset, log.high_watermark) == (40, 41)
    store.close()


@pytest.mark.parametrize(("topic", "count"), [("events", 0), ("others", 1)])
def test_a_partition_that_no_topic_has_is_not_made(where: Path, topic: str, count: int) -> None:
    filled(where)
    shutil.rmtree(where / "events-0")
    store, _ = open_store(where)
    assert store.restore_absent(topic, TOPIC_ID, count, TopicSettings()) == []
    assert store.partition("events", 0) is None
    store.close()


def test_a_partition_that_was_empty_lost_nothing(where: Path) -> None:
    store, _ = open_store(where)
    make(store)
    store.close()
    shutil.rmtree(where / "events-0")
    store, missing = absent(where)
    assert missing == [] and store.partition("events", 0) is None
    store.close()


def test_a_deleted_partition_is_not_missing_after_a_kill(where: Path, tmp_path: Path) -> None:
    filled(where)
    store, _ = open_store(where)
    make(store)
    store.delete_partition("events", 0)
    run_through(store.forget_deleted())
    killed = after_kill(where, tmp_path / "killed")
    again, missing = absent(killed)
    assert missing == [] and again.partition("events", 0) is None
    again.close()
    store.close()


def test_a_partition_that_moved_to_another_directory_is_not_missing(tmp_path: Path) -> None:
    from broker.config.sections.log import LogConfig

    one, two = tmp_path / "one", tmp_path / "two"
    filled(one)
    two.mkdir()
    shutil.move(one / "events-0", two / "events-0")
    store = LogStore(LogConfig(dirs=(str(one), str(two))))
    recovery = store.open()
    assert store.restore_absent("events", TOPIC_ID, 1, TopicSettings()) == []
    log = store.partition("events", 0)
    assert log is not None and log.high_watermark == 40 and recovery.missing == []
    store.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_partition_that_lost_all_of_its_segments_goes_on_where_they_ended(
    where: Path, is_clean: bool
) -> None:
    filled(where)
    if not is_clean:
        unclean(where)
    for path in log_files(where):
        remove(path)
    store, recovery = open_store(where)
    log = store.partition("events", 0)
    assert log is not None and recovery.missing == [Missing("events", 0, 0, 40)]
    assert (log.log_start_offset, log.high_watermark, log.missing) == (40, 40, 40)
    assert append(make(store), sized(100))[0].base_offset == 40
    store.close()
