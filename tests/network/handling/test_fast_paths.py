"""Requests on the fast path, through the network, in every version."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
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


class Handled:
    """Counts the requests that reach the full handler of one API in one version."""

    def __init__(self, broker: RunningBroker, api: int, version: int) -> None:
        (self.route,) = [
            each
            for each in broker.server.socket_server.listeners[0].routes.all()
            if (each.api.key, each.version) == (api, version)
        ]
        self.count = 0
        handle = self.route.handle

        def counted(*args: object) -> object:
            self.count += 1
            return handle(*args)

        self.route.handle = counted

    def only(self) -> None:
        """Give every request to the full handler."""
        for each in (self.route, *self.route.variants.values()):
            each.fast_path, each.handle = None, self.route.handle


async def ask_raw(client: WireClient, message: object, version: int) -> bytes:
    """Return the response without its correlation id."""
    await client.send(message, version)
    return (await client.receive_frame())[4:]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
async def test_a_produce_is_answered_as_the_full_handler_answers(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    answers = [await client.ask(produce(broker, version), version) for _ in range(3)]
    partitions = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [each.base_offset for each in partitions] == [0, 1, 2]
    assert {each.error_code for each in partitions} == {0}
    handled = Handled(broker, 0, version)
    first = await ask_raw(client, produce(broker, version), version)
    assert handled.count == (0 if version >= 5 else 1)
    handled.only()
    second = await ask_raw(client, produce(broker, version), version)
    assert first.replace((3).to_bytes(8), (4).to_bytes(8)) == second
    assert handled.count == (1 if version >= 5 else 2)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_a_fetch_is_answered_as_the_full_handler_answers(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.ask(produce(broker, 9), 9)
    await client.ask(fetch(broker, version, 0), version)
    handled = Handled(broker, 1, version)
    fast = await ask_raw(client, fetch(broker, version, 1), version)
    assert handled.count == (0 if version >= 5 else 1)
    # Another offset, the end, and one that does not exist.
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

    handled.only()
    assert await ask_raw(client, fetch(broker, version, 1), version) == fast


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
    await client.ask(create_topic(), 5)
    answer = await client.ask(produce(broker, 9), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0


async def test_a_bad_crc_gets_its_code(broker: RunningBroker) -> None:
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
async def test_zstd_is_refused_before_version_7(broker: RunningBroker, version: int) -> None:
    client = await broker.connect()
    for _ in range(2):
        await client.ask(produce(broker, version), version)
    for codec, error in ((Codec.LZ4, 0), (Codec.ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)):
        request = produce(broker, version)
        batch = bytearray(build_batch([NewRecord(None, b"value", 0)], codec=codec))
        request.topic_data[0].partition_data[0].records = batch
        answer = await client.ask(request, version)
        assert answer.responses[0].partition_responses[0].error_code == (error if version < 7 else 0)
    answer = await client.ask(produce(broker, version), version)
    assert answer.responses[0].partition_responses[0].base_offset == (3 if version < 7 else 4)


async def test_acks_0_is_stored_without_an_answer(broker: RunningBroker) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.send(produce(broker, 9, acks=0), 9)
    answer = await client.ask(produce(broker, 9), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 3


async def test_a_fetch_below_min_bytes_waits_for_them(broker: RunningBroker) -> None:
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
