"""Retention with a wall clock that is set forward, on a mock clock."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.records.build import NewRecord, build_batch
from broker.server.disk.tasks import REMOVAL_CHECK_MS
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request
from tests.support.running import running_broker

YEAR_MS = 365 * 24 * 3_600_000


@pytest.mark.parametrize("stays", [True, False])
async def test_a_clock_set_a_year_forward_deletes_only_if_it_stays_so(
    tmp_path: Path, mock_clock: MockClock, stays: bool
) -> None:
    """Also if it is set before the first round of retention."""
    async with running_broker(tmp_path, "log.retention.check.interval.ms=300000") as broker:
        client = await broker.connect()
        await client.ask(create_topic("events", 1), 5)
        batch = build_batch([NewRecord(None, b"one", broker.server.clock.wall_ms())])
        request = produce_request(bytearray(batch), "events", 0, acks=-1)
        assert (await client.ask(request, PRODUCE_VERSION)).responses[0].partition_responses[
            0
        ].error_code == 0
        clock = broker.server.clock
        log = broker.server.partitions.log("events", 0)
        assert log is not None
        right = clock.wall_ms
        clock.wall_ms = lambda: right() + YEAR_MS
        mock_clock.jump(REMOVAL_CHECK_MS / 1_000)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert log.log_start_offset == 0
        if not stays:
            clock.wall_ms = right
        for _ in range(5):
            assert log.log_start_offset == 0
            mock_clock.jump(REMOVAL_CHECK_MS / 1_000)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert log.log_start_offset == (1 if stays else 0)
