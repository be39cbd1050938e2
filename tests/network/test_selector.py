"""Many connections of one processor, as in Kafka's SelectorTest."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.network.processor import Processor
from broker.network.requests.request_channel import Request
from broker.network.requests.routes import Route, Routes
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.network.test_pipelining import connections, correlation_ids, encoded, numbered, stored
from tests.support.hostile import log_texts
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


class Polls(trio.abc.Instrument):
    """How many completed receives each connection, or the only one, had in each turn of the event loop."""

    def __init__(self) -> None:
        self.turn = 0
        self.seen: Counter[tuple[int, str]] = Counter()

    def before_io_wait(self, timeout: float) -> None:
        self.turn += 1

    def watch_queue(self, processor: Processor) -> None:
        """Count the requests of each connection that its processor queues."""
        put_nowait = processor._put_nowait

        def counted(request: Request) -> None:
            self.seen[self.turn, request.channel.id] += 1
            put_nowait(request)

        processor._put_nowait = counted

    def watch_routes(self, routes: Routes) -> None:
        """Count the requests of the only connection, also those that are answered from a cache."""
        get = routes.get

        def counted(head: int) -> Route | None:
            self.seen[self.turn, ""] += 1
            return get(head)

        routes.get = counted  # type: ignore[assignment]


@pytest.fixture(params=[(), ("queued.max.request.bytes=104857600",)], ids=["unbounded", "bounded"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *request.param) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def converse(broker: RunningBroker, name: str, count: int) -> None:
    """Send small produce requests at once; the responses arrive in order."""
    client = await broker.connect(name)
    stream = b"".join(encoded(produce_request(batch_of(b"%d" % at)), 8, at) for at in range(count))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, stream)
        for at in range(0, count, 100):
            assert await correlation_ids(client, 100) == list(range(at, at + 100))


async def test_five_connections_with_five_hundred_requests_each(broker: RunningBroker) -> None:
    polls = Polls()
    for processor in broker.server.socket_server.processors():
        polls.watch_queue(processor)
    trio.lowlevel.add_instrument(polls)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(converse, broker, f"client-{number}", 500)
    trio.lowlevel.remove_instrument(polls)
    assert stored(broker) == 2_500
    assert connections(broker) == 6
    assert sum(polls.seen.values()) == 2_500
    assert max(polls.seen.values()) == 1, "one completed receive of a channel in a poll"


async def test_a_client_that_is_answered_from_the_cache_gets_no_larger_share(tmp_path: Path) -> None:
    """An unmuted channel gets one buffered receive and one from the poll."""
    polls = Polls()
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.stream.send_all(numbered(18, 0, 0, b""))
        assert await correlation_ids(client, 1) == [0]
        polls.watch_routes(broker.server.socket_server.listeners[0].routes)
        trio.lowlevel.add_instrument(polls)
        stream = b"".join(numbered(18, 0, at, b"") for at in range(5_000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, stream)
            for at in range(0, 5_000, 500):
                assert await correlation_ids(client, 500) == list(range(at, at + 500))
        trio.lowlevel.remove_instrument(polls)
        assert sum(polls.seen.values()) == 5_000
        assert max(polls.seen.values()) <= 2


async def fetched(client: WireClient, size: int) -> bytes:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=size)
    answer = await client.ask(
        FetchRequest(max_wait_ms=0, max_bytes=size, topics=[FetchTopic("events", partitions=[partition])]), 11
    )
    return bytes(answer.responses[0].partitions[0].records)


async def test_a_request_of_ten_buffers_comes_back(broker: RunningBroker) -> None:
    client = await broker.connect()
    value = bytes(range(256)) * 2_560
    assert len(value) == 10 * 64 * 1024
    await client.ask(produce_request(batch_of(value)), PRODUCE_VERSION)
    assert value in await fetched(client, 1_000_000)


async def test_fifty_requests_of_512_kib(broker: RunningBroker) -> None:
    client = await broker.connect()
    one = produce_request(batch_of(bytes(512 * 1024)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, b"".join(encoded(one, 8, at) for at in range(50)))
        assert await correlation_ids(client, 50) == list(range(50))
    assert stored(broker) == 50


async def test_an_empty_frame_is_a_frame(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    """An empty frame is valid to the selector, but not as a request."""
    client = await broker.connect()
    await client.stream.send_all(bytes(4))
    assert await client.is_closed()
    assert log_texts(caplog) == ["a request of 0 bytes has no header: expected at least 10"]
