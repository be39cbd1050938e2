"""Disk tasks: producer.id.expiration.check.interval.ms, the interval of checks for expired producers, and
background.threads, the number of concurrent jobs, with the requests that do not wait for them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.slices import Steps
from broker.records.build import NewRecord, build_batch
from broker.server.broker import BrokerServer
from broker.server.disk.tasks import BackgroundThreads
from tests.support.live import alter, alter_through, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import running_broker


async def test_expired_producers_are_forgotten_at_the_next_check_and_not_before(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = ("producer.id.expiration.ms=1000", "producer.id.expiration.check.interval.ms=7000")
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        record = NewRecord(None, b"x", broker.server.clock.wall_ms())
        batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
        answer = await client.ask(produce_request(bytearray(batch)), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0
        log = broker.server.partitions.log("events", 0)
        assert log is not None
        mock_clock.jump(6.999)
        await wait_all_tasks_blocked(0.01)
        assert len(log.producers) == 1
        mock_clock.jump(0.001)
        await wait_all_tasks_blocked(0.01)
        assert len(log.producers) == 0


LIMIT_SECONDS = 20


async def until(condition: Callable[[], bool]) -> None:
    """Threads need real time."""
    ends = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < ends, "nothing has happened"
        await trio.to_thread.run_sync(time.sleep, 0.001)


class BlockedWork:
    """Blocks its thread until released. `running` is the number of threads in it."""

    error: OSError | None = None

    def __init__(self) -> None:
        self.running = 0
        self._lock = threading.Lock()
        self._may_end = threading.Semaphore(0)

    def run(self) -> None:
        with self._lock:
            self.running += 1
        ended = self._may_end.acquire(timeout=LIMIT_SECONDS)
        with self._lock:
            self.running -= 1
        assert ended, "the test did not release it"

    def finish(self) -> None: ...

    def let_go(self, count: int = 1) -> None:
        self._may_end.release(count)


@pytest.fixture
def work() -> Iterator[BlockedWork]:
    blocked = BlockedWork()
    yield blocked
    blocked.let_go(1_000)


@pytest.mark.parametrize(("submitted", "at_once"), [(2, 2), (3, 3), (4, 3)])
async def test_as_much_work_runs_at_once_as_there_are_threads(
    work: BlockedWork, submitted: int, at_once: int
) -> None:
    threads = BackgroundThreads(3)
    async with trio.open_nursery() as nursery:
        for _ in range(submitted):
            nursery.start_soon(threads.run, work.run)
        await until(lambda: work.running == at_once)
        assert threads._limiter.statistics().tasks_waiting == submitted - at_once
        work.let_go()
        await until(lambda: work.running == min(submitted - 1, 3))
        work.let_go(submitted)


async def test_fewer_threads_end_no_work_and_more_begin_what_waits(work: BlockedWork) -> None:
    threads = BackgroundThreads(2)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(threads.run, work.run)
        await until(lambda: work.running == 2)
        threads.resize(1)
        work.let_go()
        await until(lambda: work.running == 1)
        assert threads._limiter.statistics().tasks_waiting == 1
        threads.resize(2)
        await until(lambda: work.running == 2)
        work.let_go(2)


def held_up(monkeypatch: pytest.MonkeyPatch, server: BrokerServer, work: BlockedWork) -> list[int]:
    """Make retention block its thread; the returned list grows by one for each recovery point."""
    checkpoints: list[int] = []

    class Checkpoint(BlockedWork):
        def run(self) -> None:
            checkpoints.append(1)

    def retention(_now_wall_ms: int, _now_ms: int) -> Steps[list[BlockedWork]]:
        yield
        return [work]

    monkeypatch.setattr(server.log, "retention", retention)
    monkeypatch.setattr(server.log, "checkpoint", Checkpoint)
    return checkpoints


SETTINGS = (
    "background.threads=1",
    "log.retention.check.interval.ms=1",
    "log.flush.offset.checkpoint.interval.ms=1",
    "log.flush.interval.messages=1",
)


@takes_effect("background.threads")
async def test_background_work_shares_the_threads_and_requests_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: BlockedWork
) -> None:
    async with running_broker(tmp_path, *SETTINGS) as broker:
        checkpoints = held_up(monkeypatch, broker.server, work)
        await until(lambda: work.running == 1)
        seen = len(checkpoints)
        client = await broker.connect()
        # Each is committed to the metadata log, or waits for the disk.
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        for _ in range(10):
            answer = await client.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert (len(checkpoints), work.running) == (seen, 1)

        await alter(broker, background_threads="2")
        await until(lambda: len(checkpoints) > seen)
        work.let_go(1_000)


@pytest.mark.parametrize(("count", "taken"), [("4", False), ("5", True), ("20", True), ("21", False)])
async def test_the_threads_change_from_half_to_double_at_a_time(
    tmp_path: Path, count: str, taken: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        code, words = await alter_through(client, {"background.threads": count})
        assert code == (0 if taken else 42)
        assert taken or (words or "").startswith(
            f"Dynamic thread count update validation failed for background.threads={count}, value should"
        )
