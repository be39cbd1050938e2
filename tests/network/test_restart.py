"""Logs of an earlier run that no client has used since the restart."""

from pathlib import Path

from trio.testing import MockClock, wait_all_tasks_blocked

from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker

RETENTION = ("log.retention.ms=60000", "log.retention.check.interval.ms=1000")


async def fill(running: RunningBroker) -> None:
    client = await running.connect()
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    answer = await client.ask(produce_request_of(5_000, "maker"), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def test_retention_applies_to_topics_without_requests(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *RETENTION) as first:
        await fill(first)
    async with running_broker(tmp_path, *RETENTION) as second:
        (log,) = second.server.partitions.by_name["events"].open_logs.values()
        end = log.high_watermark
        assert (log.log_start_offset, end > 0) == (0, True)
        for _ in range(62):  # a minute, and one round of the chore on either side
            mock_clock.jump(1)
            await wait_all_tasks_blocked()
        assert log.log_start_offset == end


async def test_the_sizes_of_such_topics_are_known(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as first:
        await fill(first)
        (before,) = (log.size for log in first.server.partitions.by_name["events"].open_logs.values())
    async with running_broker(tmp_path) as second:
        (after,) = (log.size for log in second.server.partitions.by_name["events"].open_logs.values())
        assert after == before > 4_000
