"""The cleaner's tasks: when they look for work, how fast they read and write, and what ends a pass early."""

import errno
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.sections import LogCleanerConfig
from broker.log import disk
from broker.log.cleaner.manager import CleanerManager
from broker.log.store import LogStore
from broker.network.clock import TrioClock
from broker.server.disk.log_cleaner import CREDIT_MS, LogCleaner, Throttler
from tests.log.cleaner.harness import close_segment, compacted, pairs, put
from tests.log.cleaner.test_manager import sized_put
from tests.log.harness import NOW, open_store


@pytest.fixture
def store(tmp_path: Path):
    opened, _ = open_store(tmp_path / "data")
    yield opened
    opened.close()


async def run_here(work: Any, *args: Any) -> Any:
    """Run the work in place of a thread, so that the mock clock knows of it."""
    await trio.lowlevel.checkpoint()
    return work(*args)


def cleaner_of(store: LogStore, **config: Any) -> LogCleaner:
    return LogCleaner(
        CleanerManager(store), LogCleanerConfig(**config), TrioClock(), rest=lambda: None, run=run_here
    )


def test_a_limit_counts_the_time_between_two_pieces() -> None:
    throttle = Throttler()
    assert throttle.wait_ms(1_000, 1_000.0, 5_000) == 1_000 - CREDIT_MS
    assert throttle.wait_ms(1_000, 1_000.0, 5_700) == 1_000
    assert throttle.wait_ms(500, 1_000.0, 7_100) == 200  # of 400 ms without work, 300 count
    assert throttle.wait_ms(1, 1e300, 60_000) == 0


async def test_a_pass_takes_as_long_as_its_bytes(store, autojump_clock: MockClock) -> None:
    log = compacted(store)
    sized_put(log, 1_000)
    close_segment(log)
    sized_put(log, 1_000)
    close_segment(log)
    cleaner = cleaner_of(store, io_max_bytes_per_second=1_000.0)
    before = trio.current_time()
    assert await cleaner.clean_next()
    # Two segments are read twice; an empty batch of 61 bytes and one record are written; less the credit.
    assert trio.current_time() - before == pytest.approx(4 + 1.061 - CREDIT_MS / 1000, abs=0.002)
    assert cleaner.manager.runs[log].stats.elapsed_ms == pytest.approx(4_761, abs=2)


async def test_without_work_a_task_waits_for_the_backoff(store, mock_clock: MockClock) -> None:
    cleaner = cleaner_of(store, backoff_ms=15_000)
    looked = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cleaner.run)
        for jump in (0, 14.999, 0.001, 14.999, 0.001):
            mock_clock.jump(jump)
            await wait_all_tasks_blocked()
            looked.append(cleaner.manager.chosen_wall_ms)
        nursery.cancel_scope.cancel()
    assert [each - looked[0] for each in looked] == [0, 0, 15_000, 15_000, 30_000]


async def test_no_thread_does_nothing(store, autojump_clock: MockClock) -> None:
    cleaner = cleaner_of(store, threads=0)
    with trio.move_on_after(100):
        await cleaner.run()
    assert cleaner.manager.chosen_wall_ms is None


async def test_a_pass_ends_early_when_its_log_is_deleted_or_shortened(
    store, autojump_clock: MockClock
) -> None:
    for index, change in enumerate((lambda log: store.delete_partition(log.topic, log.index), shorten)):
        log = compacted(store, index=index, cleanup_policy=("compact", "delete"), retention_bytes=1)
        sized_put(log, 1_000)
        close_segment(log)
        sized_put(log, 500)
        close_segment(log)
        cleaner = cleaner_of(store, io_max_bytes_per_second=1_000.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cleaner.clean_next)
            await trio.sleep(0.1)
            assert cleaner.manager.in_progress == {log}
            change(log)
        assert cleaner.manager.in_progress == set() == set(cleaner.manager.uncleanable)
        assert log not in cleaner.manager.runs
    assert unfinished_copies(log) == []


def unfinished_copies(log) -> list[Path]:
    return list(Path(log.directory).glob("*.cleaned"))


def shorten(log) -> None:
    """Retention removes the oldest segment."""
    assert log.retire(NOW)


async def test_a_full_disk_is_tried_again_and_a_broken_one_is_not(store, autojump_clock, monkeypatch) -> None:
    log = compacted(store)
    put(log, ("a", "1"), ("a", "2"))
    close_segment(log)
    cleaner = cleaner_of(store)
    before = pairs(log)
    for code, is_tried_again in ((errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)):
        with monkeypatch.context() as patch:

            def refuse(*_args: object, code: int = code) -> int:
                raise OSError(code, "refused")

            patch.setattr(disk, "write_at", refuse)
            assert not await cleaner.clean_next()
        assert pairs(log) == before
        assert (log not in cleaner.manager.uncleanable) is is_tried_again
        assert unfinished_copies(log) == []
    assert not await cleaner.clean_next()
    cleaner.manager.uncleanable.clear()
    assert await cleaner.clean_next()
    assert pairs(log) == [(1, "a", "2")]


async def test_an_unexpected_error_spares_the_other_logs(store, autojump_clock, monkeypatch, caplog) -> None:
    bad, good = compacted(store, index=0), compacted(store, index=1)
    for log in (bad, good):
        put(log, ("a", "1"), ("a", "2"))
        close_segment(log)
    cleaner = cleaner_of(store)
    with monkeypatch.context() as patch:

        def fail(*_args: object) -> None:
            raise ZeroDivisionError

        patch.setattr("broker.server.disk.log_cleaner.Cleaning", fail)
        assert not await cleaner.clean_next()
    assert list(cleaner.manager.uncleanable) == [bad]
    assert "a log cannot be compacted until the next start" in caplog.text
    assert await cleaner.clean_next()
    assert pairs(good) == [(1, "a", "2")]


async def test_a_batch_with_more_keys_than_the_map_holds_is_reported(
    store, autojump_clock, monkeypatch
) -> None:
    log = compacted(store)
    put(log, ("a", "1"), ("b", "1"), ("c", "1"))
    close_segment(log)
    cleaner = cleaner_of(store, dedupe_buffer_size=3 * 24)
    assert not await cleaner.clean_next()
    assert cleaner.manager.uncleanable == {log: "the offset map cannot hold the keys of one batch"}
