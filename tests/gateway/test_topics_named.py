"""Which topics the clients of a gateway use, as the requests name them that it forwards."""

from pathlib import Path

import pytest

from broker.api.requests.topics_used import MAX_TOPICS
from broker.common.slices import run_through
from broker.gateway.topics_named import IDS_FROM, TOPICS_AT, fetched_topics
from broker.protocol import codec
from broker.protocol.api_key import FLEXIBLE_FROM, ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.gateway.test_forwarding import both, fetch, fetched, produce
from tests.gateway.test_usual_reads import channel_of
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request_of
from tests.support.wire import WireClient

CLIENT_ID = "c"
HEAD_BYTES = 14 + len(CLIENT_ID)
LAST_FETCH = max(TOPICS_AT)


def id_of(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def body_of(request: FetchRequest, version: int) -> memoryview:
    """What follows the client id."""
    return memoryview(b"".join(codec.encode_request(ApiKey.FETCH, version)(request, 1, CLIENT_ID)))[
        HEAD_BYTES:
    ]


def fetch_of(*topics: str, partitions: int = 2) -> FetchRequest:
    asked = [
        FetchTopic(each, id_of(each), [FetchPartition(index, fetch_offset=7) for index in range(partitions)])
        for each in topics
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        topics=asked,
        forgotten_topics_data=[ForgottenTopic("z", id_of("z"), [1])],
    )


@pytest.mark.parametrize("topics", [(), ("a",), ("a", "long" * 60), tuple("abcdefgh")])
@pytest.mark.parametrize("version", TOPICS_AT)
def test_the_topics_of_a_fetch_are_read(version: int, topics: tuple[str, ...]) -> None:
    flexible = version >= FLEXIBLE_FROM[ApiKey.FETCH]
    topics = tuple(each[:16] for each in topics) if version >= IDS_FROM else topics
    body = body_of(fetch_of(*topics), version)
    found = list(fetched_topics(body, version, flexible=flexible))
    expected = [id_of(each) if version >= IDS_FROM else each for each in topics]
    assert [name for name, _ in found] == expected
    for name, end in found:
        raw = name if isinstance(name, bytes) else name.encode()
        assert bytes(body[end - len(raw) : end]) == raw
    for cut in range(len(body)):  # of what has arrived, the first ones
        part = [name for name, _ in fetched_topics(body[:cut], version, flexible=flexible)]
        assert part == expected[: len(part)]


def test_every_version_that_is_forwarded_and_has_topics_is_read() -> None:
    assert list(TOPICS_AT) == list(range(4, 16))


async def id_of_events(client: WireClient) -> bytes:
    answer = await client.ask(MetadataRequest([MetadataRequestTopic(name="events")], False), 10)
    return bytes(answer.topics[0].topic_id)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13])
async def test_what_a_client_fetches_is_noted_once(tmp_path: Path, version: int) -> None:
    async with both(tmp_path) as (broker, gateway):
        await produce(await broker.connect(), batch_of(b"one"))
        client = await gateway.connect("reader")
        topic_id = await id_of_events(client)
        request = fetch(0)
        request.topics[0].topic_id = topic_id
        noted = []
        for _ in range(4):  # the later ones are usual reads
            await client.ask(request, version)
            noted.append(channel_of(gateway).topics_read)
        assert noted[0] == {topic_id if version >= IDS_FROM else "events"}
        assert all(each is noted[0] for each in noted)
        assert channel_of(gateway).topics_written == frozenset()
        [row] = run_through(gateway.server.views.live.clients_of_topic("events", topic_id))
        assert (row.client_id, row.connections, row.reading, row.writing) == ("reader", 1, 1, 0)
        assert run_through(gateway.server.views.live.clients_of_topic("other", bytes(16))) == []


async def test_a_second_topic_is_noted_too(tmp_path: Path) -> None:
    async with both(tmp_path) as (broker, gateway):
        await (await broker.connect()).ask(create_topic("clicks"), 5)
        await produce(await broker.connect(), batch_of(b"one"))
        client = await gateway.connect()
        await fetched(client, 0)
        await fetched(client, 0)
        await client.ask(fetch(0, topic="clicks"), 12)
        assert channel_of(gateway).topics_read == {"events", "clicks"}
        await client.ask(fetch(0), 12)
        assert channel_of(gateway).topics_read == {"events", "clicks"}


@pytest.mark.parametrize("size", [400, 20_000, 300_000])
@pytest.mark.parametrize("acks", [0, 1])
async def test_what_a_client_produces_is_noted_of_large_frames_too(
    tmp_path: Path, size: int, acks: int
) -> None:
    async with both(tmp_path, "gateway.splice.min.bytes=100000") as (_, gateway):
        client = await gateway.connect("writer")
        topic_id = await id_of_events(client)
        for _ in range(3):
            request = produce_request_of(size, "writer", acks=acks)
            if acks:
                await client.ask(request, PRODUCE_VERSION)
            else:
                await client.send(request, PRODUCE_VERSION)
                await id_of_events(client)
        channel = channel_of(gateway)
        assert (channel.topics_written, channel.topics_read) == ({"events"}, frozenset())
        [row] = run_through(gateway.server.views.live.clients_of_topic("events", topic_id))
        assert (row.client_id, row.connections, row.reading, row.writing) == ("writer", 1, 0, 1)


async def test_a_produce_of_many_topics_and_one_by_id_are_noted(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        topic_id = await id_of_events(client)
        record = PartitionProduceData(0, batch_of(b"one"))
        for first, second in (("a", "b"), ("b", "a"), ("a", "b")):
            data = [TopicProduceData(name, partition_data=[record]) for name in (first, second)]
            await client.ask(ProduceRequest(None, 1, 30_000, data), PRODUCE_VERSION)
        assert channel_of(gateway).topics_written == {"a", "b"}
        by_id = [TopicProduceData(topic_id=topic_id, partition_data=[record])]
        await client.ask(ProduceRequest(None, 1, 30_000, by_id), 13)
        assert channel_of(gateway).topics_written == {"a", "b", topic_id}


@pytest.mark.parametrize("count", [MAX_TOPICS - 1, MAX_TOPICS, MAX_TOPICS + 1])
async def test_so_many_topics_of_a_connection_are_noted(tmp_path: Path, count: int) -> None:
    async with both(tmp_path) as (_, gateway):
        client = await gateway.connect()
        for index in range(count):
            await client.ask(fetch(0, topic=f"topic-{index}"), 12)
        assert len(channel_of(gateway).topics_read) == min(count, MAX_TOPICS)
