"""producer.id.expiration.check.interval.ms: the interval of checks for expired producers."""

from pathlib import Path

from trio.testing import MockClock, wait_all_tasks_blocked

from broker.records.build import NewRecord, build_batch
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request
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
