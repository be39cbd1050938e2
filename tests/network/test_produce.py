"""Produce through the full handler: refusals and their codes, and no partial writes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.produce import ProduceRequest
from broker.records.build import NewRecord, build_batch
from broker.records.header import TRANSACTIONAL_FLAG
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        assert (await (await running.connect()).ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def code(client: WireClient, request: ProduceRequest) -> ErrorCode:
    answer = await client.ask(request, 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize(
    ("acks", "expected"),
    [
        (-2, ErrorCode.INVALID_REQUIRED_ACKS),
        (-1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (2, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
async def test_acks_are_all_one_or_none(broker: RunningBroker, acks: int, expected: ErrorCode) -> None:
    client = await broker.connect()
    assert await code(client, produce_request(batch_of(b"x"), acks=acks)) is expected


async def test_produce_creates_no_topic_or_partition(broker: RunningBroker) -> None:
    client = await broker.connect()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await code(client, produce_request(batch_of(b"x"), topic="nowhere")) is unknown
    assert await code(client, produce_request(batch_of(b"x"), partition=1)) is unknown
    assert await code(client, produce_request(batch_of(b"x"), partition=-1)) is unknown
    assert set(broker.server.control.image.topics) == {"events"}


async def test_an_unknown_transaction_gets_a_final_error(broker: RunningBroker) -> None:
    made = build_batch(
        [NewRecord(None, b"x", 1_000)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL_FLAG,
    )
    request = produce_request(bytearray(made))
    request.transactional_id = "t"
    client = await broker.connect()
    assert await code(client, request) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_clients_do_not_write_where_the_coordinator_does(broker: RunningBroker) -> None:
    client = await broker.connect()
    await client.ask(FindCoordinatorRequest(key="group"), 2)
    refused = await code(client, produce_request(batch_of(b"x"), topic="__consumer_offsets"))
    assert refused is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("replicas", ["1", "2"])
@pytest.mark.parametrize("acks", [1, -1])
async def test_no_more_replicas_are_required_than_there_are(
    broker: RunningBroker, replicas: str, acks: int
) -> None:
    """As in Kafka, where a partition requires at most as many in sync as it has."""
    client = await broker.connect()
    config = CreatableTopicConfig("min.insync.replicas", replicas)
    await client.ask(CreateTopicsRequest([CreatableTopic("safe", 1, 1, configs=[config])], 5_000, False), 5)
    for _ in range(2):
        assert await code(client, produce_request(batch_of(b"x"), topic="safe", acks=acks)) is ErrorCode.NONE


async def test_one_bad_partition_does_not_spoil_the_others(broker: RunningBroker) -> None:
    client = await broker.connect()
    request = produce_request(batch_of(b"good"))
    bad = produce_request(batch_of(b"bad"), partition=7).topic_data[0].partition_data[0]
    request.topic_data[0].partition_data.append(bad)
    answer = await client.ask(request, 9)
    codes = {each.index: each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {0: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.server.partitions.log("events", 0).high_watermark == 1  # type: ignore[union-attr]


async def test_acks_0_and_an_error_end_the_connection(broker: RunningBroker) -> None:
    client = await broker.connect()
    await client.send(produce_request(batch_of(b"x"), topic="nowhere", acks=0), 9)
    assert await client.is_closed()
