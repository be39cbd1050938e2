"""Produce names the records because of which it refuses a batch, and refuses no other batch."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from broker.records.build import NewRecord, build_batch
from tests.support.running import RunningBroker, running_broker

HOUR = 3_600_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


async def produce(
    broker: RunningBroker, *batches: list[NewRecord], version: int = 12, **configs: str
) -> list[PartitionProduceResponse]:
    """One batch for each partition of a new topic."""
    client = await broker.connect()
    entries = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreatableTopic("events", len(batches), 1, configs=entries)
    assert (await client.ask(CreateTopicsRequest([topic]), 5)).topics[0].error_code == 0
    data = [PartitionProduceData(at, bytearray(build_batch(new))) for at, new in enumerate(batches)]
    request = ProduceRequest(None, 1, 1_000, [TopicProduceData("events", partition_data=data)])
    answer = await client.ask(request, version)
    found: list[PartitionProduceResponse] = answer.responses[0].partition_responses
    return found


@pytest.mark.parametrize("fills", [1, 300])  # what the fast path inspects, and what it leaves alone
async def test_records_without_keys_fail_their_batch_only(broker: RunningBroker, fills: int) -> None:
    now = broker.server.clock.wall_ms()
    good = [NewRecord(b"k", b"v", now)] * fills
    bad = [*good, NewRecord(None, b"v", now), *good, NewRecord(None, b"v", now)]
    one, two, three = await produce(broker, good, bad, good, cleanup_policy="compact")
    assert (one.error_code, three.error_code) == (0, 0) and not one.record_errors
    assert two.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in two.record_errors] == [fills, 2 * fills + 1]
    assert (
        two.record_errors[0].batch_index_error_message
        == "A compacted topic cannot accept a record without a key"
    )
    assert two.error_message and two.error_message.startswith("2 of the batch's records are refused")


async def test_records_from_the_future_are_named(broker: RunningBroker) -> None:
    now = broker.server.clock.wall_ms()
    good, late = NewRecord(None, b"v", now), NewRecord(None, b"v", now + 2 * HOUR)
    (refused,) = await produce(broker, [good, late, good])
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in refused.record_errors] == [1]


async def test_an_old_client_gets_the_code_alone(broker: RunningBroker) -> None:
    now = broker.server.clock.wall_ms()
    (refused,) = await produce(broker, [NewRecord(None, b"v", now)], version=7, cleanup_policy="compact")
    assert refused.error_code == ErrorCode.INVALID_RECORD and not refused.record_errors
