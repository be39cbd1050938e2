"""The task that moves partitions between directories: its rate to the byte, and how a move ends."""

import errno
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.log import disk
from broker.log.partition import PartitionLog
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.support.live import alter, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

RECORD = b"x" * 10_000
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}") as running:
        client = await running.connect()
        await client.ask(create_topic(), 5)
        yield running


async def produce(client: WireClient, count: int = 1) -> None:
    for _ in range(count):
        answer = await client.ask(produce_request(batch_of(RECORD)), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0


async def move(client: WireClient, path: Path) -> int:
    topics = [AlterReplicaLogDirTopic("events", [0])]
    answer = await client.ask(AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(path), topics)]), 2)
    return int(answer.results[0].partitions[0].error_code)


async def until(condition: Callable[[], bool]) -> None:
    """The clock stands still meanwhile; threads need real time."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends, "nothing has happened"
        await trio.to_thread.run_sync(time.sleep, 0.001)


def log_of(broker: RunningBroker) -> PartitionLog:
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    return log


def has_moved(broker: RunningBroker, path: Path) -> Callable[[], bool]:
    moves = broker.server.log.moves
    return lambda: not moves.running and not moves.originals and log_of(broker).directory == str(path)


@takes_effect("replica.alter.log.dirs.io.max.bytes.per.second")
async def test_a_move_keeps_to_its_throttle_to_within_a_slice(
    broker: RunningBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    client = broker.clients[0]
    await produce(client, 60)
    await alter(broker, replica_alter_log_dirs_io_max_bytes_per_second="100000")
    assert await move(client, tmp_path / "b") == 0
    (moving,) = broker.server.log.moves.running.values()
    quota = broker.server.storage.replication.alter_log_dirs

    def is_held() -> bool:
        return quota.wait_ms(broker.server.clock.ms()) > 0

    await until(is_held)
    assert 100_000 < moving.copied <= 104_096, "one second's worth may go at once"
    for second in (2, 3, 4):
        mock_clock.jump(1)
        await until(is_held)
        assert second * 100_000 < moving.copied <= second * 100_000 + 4_096
    # One that waits repays the rest at a higher limit, and a slice is a fiftieth of that: one is enough.
    await alter(broker, replica_alter_log_dirs_io_max_bytes_per_second="100000000")
    assert quota.wait_ms(broker.server.clock.ms()) == 1
    mock_clock.jump(0.001)
    await until(has_moved(broker, tmp_path / "b" / "events-0"))
    assert moving.copied == log_of(broker).size
    assert "\nkafka_server_alterlogdirsreplication_byte_rate " in broker.server.prometheus.page()


async def test_a_limit_of_nothing_stops_moves_until_there_is_another(
    broker: RunningBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    client = broker.clients[0]
    await produce(client, 5)
    await alter(broker, replica_alter_log_dirs_io_max_bytes_per_second="0")
    await move(client, tmp_path / "b")
    (moving,) = broker.server.log.moves.running.values()
    quota = broker.server.storage.replication.alter_log_dirs
    await until(lambda: quota.wait_ms(broker.server.clock.ms()) > 0)
    mock_clock.jump(9)
    await produce(client)
    assert moving.copied == 4_096, "nothing is exceeded by nothing"
    await alter(broker, replica_alter_log_dirs_io_max_bytes_per_second=None)
    await until(has_moved(broker, tmp_path / "b" / "events-0"))


async def test_a_partition_moves_while_it_is_written_to_and_read(
    broker: RunningBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    client = broker.clients[0]
    await produce(client, 20)
    reader = await broker.connect()
    partition = FetchPartition(0, fetch_offset=40, partition_max_bytes=100_000)
    delayed = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[
            FetchTopic("events", partitions=[FetchPartition(0, fetch_offset=40, partition_max_bytes=100_000)])
        ],
    )
    await move(client, tmp_path / "b")
    await produce(client, 20)
    await reader.send(delayed, 11)
    await until(has_moved(broker, tmp_path / "b" / "events-0"))
    await produce(client)
    _, answer = await reader.receive(1, 11)
    assert len(answer.responses[0].partitions[0].records) > 10_000
    assert not (tmp_path / "a" / "events-0").exists()
    # Cached or not, the next request finds the records where they are now.
    for offset in range(41):
        partition.fetch_offset = offset
        answer = await reader.ask(delayed, 11)
        assert len(answer.responses[0].partitions[0].records) > 10_000


async def test_a_full_disk_is_reported_once_and_the_partition_stays(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = broker.clients[0]
    await produce(client, 200)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "copy", full)
    await move(client, tmp_path / "b")
    await until(lambda: not broker.server.log.moves.running)
    records = [each for each in caplog.records if each.message == "a move between log directories failed"]
    (line,) = records
    assert "No space left on device" in line.__dict__["reason"] and line.__dict__["partition"] == "events-0"
    await produce(client)
    assert log_of(broker).directory == str(tmp_path / "a" / "events-0")
    assert (
        "\nkafka_server_replicaalterlogdirsmanager_failedpartitionscount 1" in broker.server.prometheus.page()
    )


async def test_a_topic_that_is_deleted_while_it_moves_is_gone(
    broker: RunningBroker, tmp_path: Path, mock_clock: MockClock
) -> None:
    client = broker.clients[0]
    await produce(client, 30)
    await alter(broker, replica_alter_log_dirs_io_max_bytes_per_second="100000")
    await move(client, tmp_path / "b")
    assert 'is_future="true"' in broker.server.prometheus.page()
    await client.ask(DeleteTopicsRequest(topic_names=["events"]), 4)
    assert not broker.server.log.moves.running
    mock_clock.jump(60)
    await until(lambda: not list(tmp_path.glob("?/events-0*")))
    await client.ask(create_topic(), 5)
    await produce(client)
    assert log_of(broker).high_watermark == 1


async def test_a_move_is_gone_on_with_after_a_restart(tmp_path: Path, mock_clock: MockClock) -> None:
    dirs = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
    async with running_broker(tmp_path, dirs, f"{RATE}=100000") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await produce(client, 30)
        await move(client, tmp_path / "b")
    async with running_broker(tmp_path, dirs) as broker:
        await until(has_moved(broker, tmp_path / "b" / "events-0"))
        assert log_of(broker).high_watermark == 30
