"""Cached responses equal the bytes of the full handler's response, in every version."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.support.produce import batch_of, create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        assert (await (await running.connect()).ask(create_topic(partitions=2), 5)).topics[0].error_code == 0
        yield running


def topic_id(broker: RunningBroker) -> bytes:
    return broker.server.control.image.topics["events"].topic_id


def produce(broker: RunningBroker, version: int, partition: int = 0, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(partition, batch_of(b"value"))]
    topic = TopicProduceData("events", topic_id(broker), data)
    return ProduceRequest(None, acks, 30_000, [topic])


def fetch(broker: RunningBroker, version: int, offset: int, **limits: int) -> FetchRequest:
    wanted = FetchPartition(
        0, fetch_offset=offset, partition_max_bytes=limits.pop("partition_max_bytes", 1_000)
    )
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic("events", topic_id(broker), [wanted])], **limits
    )


def known_shapes(broker: RunningBroker) -> int:
    routes = broker.server.socket_server.listeners[0].routes
    return sum(
        len(route.request_cache._shapes)
        for route in routes._routes.values()
        if route.request_cache is not None
    )


async def ask_raw(client: WireClient, message: object, version: int) -> bytes:
    """Return the response without its correlation id."""
    await client.send(message, version)
    return (await client.receive_frame())[4:]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
async def test_a_repeated_produce_is_answered_as_the_first_was(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    answers = [await client.ask(produce(broker, version), version) for _ in range(3)]
    partitions = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [each.base_offset for each in partitions] == [0, 1, 2]
    assert {each.error_code for each in partitions} == {0}
    assert known_shapes(broker) == (1 if version >= 5 else 0)

    first, third = [await ask_raw(client, produce(broker, version), version) for _ in range(2)]
    assert first.replace((3).to_bytes(8), (4).to_bytes(8)) == third


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_a_repeated_fetch_is_answered_as_the_first_was(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.ask(produce(broker, 9), 9)
    before = known_shapes(broker)
    full = await ask_raw(client, fetch(broker, version, 1), version)
    assert known_shapes(broker) == before + (1 if version >= 5 else 0)
    assert await ask_raw(client, fetch(broker, version, 1), version) == full

    # Another offset, an empty end, and one that does not exist, all within the known shape.
    for offset in (0, 2):
        answer = await client.ask(fetch(broker, version, offset), version)
        records = bytes(answer.responses[0].partitions[0].records)
        assert int.from_bytes(records[:8]) == offset
    answer = await client.ask(fetch(broker, version, 3), version)
    assert (answer.responses[0].partitions[0].error_code, len(answer.responses[0].partitions[0].records)) == (
        0,
        0,
    )
    answer = await client.ask(fetch(broker, version, 4), version)
    assert answer.responses[0].partitions[0].error_code == 1


async def test_two_partitions_in_turn_do_not_answer_for_each_other(broker: RunningBroker) -> None:
    client = await broker.connect()
    offsets = {0: [], 1: []}
    for turn in range(6):
        partition = turn % 2
        answer = await client.ask(produce(broker, 9, partition), 9)
        (response,) = answer.responses[0].partition_responses
        assert response.index == partition
        offsets[partition].append(response.base_offset)
    assert offsets == {0: [0, 1, 2], 1: [0, 1, 2]}


async def test_a_topic_that_was_made_again_is_not_the_one_that_was_known(broker: RunningBroker) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.ask(produce(broker, 9), 9)
    await client.ask(DeleteTopicsRequest(topic_names=["events"], timeout_ms=1_000), 4)
    assert known_shapes(broker) == 0
    await client.ask(create_topic(), 5)
    answer = await client.ask(produce(broker, 9), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_a_bad_crc_in_a_known_shape_gets_its_code(broker: RunningBroker) -> None:
    client = await broker.connect()
    for _ in range(2):
        await client.ask(produce(broker, 9), 9)
    broken = produce(broker, 9)
    records = broken.topic_data[0].partition_data[0].records
    assert isinstance(records, bytearray)
    records[-1] ^= 1
    answer = await client.ask(broken, 9)
    assert answer.responses[0].partition_responses[0].error_code == 2
    answer = await client.ask(produce(broker, 9), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 2


@pytest.mark.parametrize("version", range(5, 9))
async def test_zstd_in_a_known_shape_is_refused_before_version_7(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    for _ in range(2):
        await client.ask(produce(broker, version), version)
    assert known_shapes(broker) == 1
    for codec, error in ((Codec.LZ4, 0), (Codec.ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)):
        asked = produce(broker, version)
        batch = bytearray(build_batch([NewRecord(None, b"value", 0)], codec=codec))
        asked.topic_data[0].partition_data[0].records = batch
        answer = await client.ask(asked, version)
        assert answer.responses[0].partition_responses[0].error_code == (error if version < 7 else 0)
    answer = await client.ask(produce(broker, version), version)
    assert answer.responses[0].partition_responses[0].base_offset == (3 if version < 7 else 4)


async def test_acks_0_in_a_known_shape_is_stored_without_an_answer(broker: RunningBroker) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.send(produce(broker, 9, acks=0), 9)
    answer = await client.ask(produce(broker, 9), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 3


async def test_a_fetch_below_min_bytes_in_a_known_shape_waits_for_them(broker: RunningBroker) -> None:
    client, other = await broker.connect(), await broker.connect()
    await client.ask(produce(broker, 9), 9)
    one_batch = len(batch_of(b"value"))
    request = fetch(broker, 12, 0)
    request.min_bytes, request.max_wait_ms = one_batch, 30_000
    await client.ask(request, 12)
    request.min_bytes = one_batch + 1
    await client.send(request, 12)
    await other.ask(produce(broker, 9), 9)
    _, answer = await client.receive(1, 12)
    assert len(answer.responses[0].partitions[0].records) == 2 * one_batch
