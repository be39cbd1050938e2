"""A whole broker in AutoMQ's mode, over real connections: admission, waiting, and closing."""

import logging
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.network import unsendable
from broker.network.automq.handler_queues import RequestQueues
from broker.network.connection.read_ahead_channel import QUEUE_FULL
from broker.network.processor import Event
from broker.server.compiled import COMPILED
from tests.network.automq.frames import (
    AUTOMQ,
    channel_of,
    correlation_ids,
    encoded,
    numbered,
    produced,
    stored,
    waiting_fetch,
)
from tests.support.hostile import is_served, log_texts, request, until
from tests.support.live import alter_through
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, AUTOMQ) as running:
        yield running
        if not running.stop.is_set():
            await until(lambda: queues(running).sizes.available == queues(running).sizes.limit)


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


def queues(broker: RunningBroker) -> RequestQueues:
    requests = broker.server.socket_server.requests
    assert isinstance(requests, RequestQueues)
    return requests


async def test_answers_keep_the_order_of_their_requests(broker: RunningBroker, client: WireClient) -> None:
    """Quick ones, kept ones, ones that wait for a commit, and metadata changes in a thread, back to back."""
    stream = b""
    for number in range(0, 500, 5):
        stream += numbered(18, 0, number, b"")
        stream += encoded(produce_request(batch_of(b"%d" % number)), 8, number + 1)
        stream += numbered(3, 1, number + 2, struct.pack(">i", 0))
        stream += encoded(create_topic(f"topic-{number % 10}"), 4, number + 3)
        stream += numbered(18, 77, number + 4, b"what version 77 has")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, stream)
        assert await correlation_ids(client, 500) == list(range(500))
    assert stored(broker) == 100


async def test_produces_of_one_connection_are_appended_in_their_order(
    broker: RunningBroker, client: WireClient
) -> None:
    """A batch that is out of the order of its producer's sequence would be refused (KIP-98)."""
    count = 200
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, b"".join(produced(n) for n in range(count)))
        offsets = []
        for number in range(count):
            correlation_id, answer = await client.receive(0, 8)
            assert correlation_id == number
            offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(count))


async def test_requests_behind_a_delayed_fetch_are_handled_and_their_responses_wait(
    broker: RunningBroker, client: WireClient
) -> None:
    """Only this connection's responses wait, and only for their order."""
    assert (await client.ask(create_topic("other"), 5)).topics[0].error_code == 0
    pipelined = await broker.connect()
    await pipelined.stream.send_all(
        waiting_fetch(1) + produced(2, topic="other") + numbered(18, 0, 3, b"") + produced(4, 0, "other")
    )
    await until(lambda: stored(broker, "other") == 2)
    assert await is_served(client)
    channel = channel_of(broker, pipelined)
    assert len(channel.in_flight) == 4 and len(channel.early) == 3
    await client.ask(produce_request(batch_of(b"one")), 9)
    assert await correlation_ids(pipelined, 3) == [1, 2, 3]
    assert not channel.in_flight and not channel.early


@pytest.mark.parametrize(("sent", "admitted", "is_full"), [(63, 63, False), (64, 64, True), (65, 64, True)])
async def test_no_more_than_the_high_watermark_are_in_hand(
    broker: RunningBroker, client: WireClient, sent: int, admitted: int, is_full: bool
) -> None:
    pipelined = await broker.connect()
    await pipelined.stream.send_all(b"".join(map(waiting_fetch, range(sent))))
    await until(lambda: len(channel_of(broker, pipelined).in_flight) == admitted)
    await wait_all_tasks_blocked(0.02)
    channel = channel_of(broker, pipelined)
    assert len(channel.in_flight) == admitted
    assert bool(channel.flags & QUEUE_FULL) is is_full
    await client.ask(produce_request(batch_of(b"one")), 9)
    assert await correlation_ids(pipelined, sent) == list(range(sent))


async def test_a_small_bound_in_bytes_delays_and_drops_nothing(tmp_path: Path) -> None:
    """One request at a time fits, and four connections send fifty each."""
    bound = "queued.max.requests.size.bytes=100"
    async with running_broker(tmp_path, AUTOMQ, bound, "num.network.threads=2") as broker:
        maker = await broker.connect()
        await maker.ask(create_topic(), 5)
        clients = [await broker.connect() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.stream.send_all, b"".join(map(produced, range(50))))
            for client in clients:
                assert await correlation_ids(client, 50) == list(range(50))
        assert stored(broker) == 200
        assert queues(broker).sizes.available == 100


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("pieces", [1, 10])
async def test_ten_requests_and_then_the_end_are_all_stored_and_answered(
    broker: RunningBroker, client: WireClient, acks: int, pieces: int
) -> None:
    leaving = await broker.connect()
    stream = [produced(number, acks) for number in range(10)]
    for at in range(0, 10, 10 // pieces):
        await leaving.stream.send_all(b"".join(stream[at : at + 10 // pieces]))
    await leaving.stream.send_eof()
    if acks:
        assert await correlation_ids(leaving, 10) == list(range(10))
    with trio.fail_after(WITHIN_S):
        assert await leaving.is_closed()
    assert stored(broker) == 10
    assert await is_served(client)


async def test_requests_before_a_violation_are_answered(broker: RunningBroker, client: WireClient) -> None:
    """An invalid frame follows a delayed fetch: the connection closes after the fetch's response."""
    hostile = await broker.connect()
    await hostile.stream.send_all(waiting_fetch(1) + produced(2, topic="nowhere") + struct.pack(">i", -5))
    await hostile.stream.send_all(produced(3))
    await wait_all_tasks_blocked(0.05)
    assert not channel_of(broker, hostile).closed
    assert stored(broker) == 0
    await client.ask(produce_request(batch_of(b"one")), 9)
    assert await correlation_ids(hostile, 2) == [1, 2]
    assert await hostile.is_closed()


async def test_an_unknown_request_ends_its_connection_in_turn(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hostile = await broker.connect()
    await hostile.stream.send_all(waiting_fetch(1) + request(999, 0) + produced(2))
    await wait_all_tasks_blocked(0.05)
    await client.ask(produce_request(batch_of(b"one")), 9)
    assert await correlation_ids(hostile, 1) == [1]
    assert await hostile.is_closed()
    assert log_texts(caplog) == ["API key 999 version 0 is not served"]


async def test_connections_that_are_reset_leave_nothing_behind(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    """RST in every state: idle, within a frame, with answers on their way, with fetches that wait, with more
    in hand than it may, with a large frame in assembly.
    """
    whole = request(3, 1, struct.pack(">i", 0))
    large = encoded(produce_request(batch_of(bytes(200_000)), acks=0), 9, 1)
    states = (
        b"",
        whole[:7],
        whole * 50,
        b"".join(map(waiting_fetch, range(5))) + whole,
        b"".join(map(waiting_fetch, range(80))),
        waiting_fetch(1) + large[:150_000],
    )
    for number in range(120):
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await stream.send_all(states[number % len(states)])
        if number % 2:
            await wait_all_tasks_blocked(0.001)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()
    await until(lambda: len(list(broker.server.socket_server.channels())) == 1)
    assert broker.server.fetches.delayed == 0
    serious = [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]
    assert {record.name for record in serious} <= {unsendable.__name__}, "answers were on their way"
    assert broker.server.socket_server.frames.outstanding == 0
    assert await is_served(client)


async def test_the_stop_answers_all_that_is_in_hand(broker: RunningBroker, client: WireClient) -> None:
    """Delayed fetches, followed by produces."""
    stream = [waiting_fetch(n) if n % 2 else produced(n, topic="nowhere") for n in range(1, 61)]
    await client.stream.send_all(b"".join(stream))
    await until(lambda: len(channel_of(broker, client).in_flight) == 60)
    broker.stop.set()
    assert await correlation_ids(client, 60) == list(range(1, 61))
    assert await client.is_closed()
    with trio.fail_after(WITHIN_S):
        await broker.started.stopped.wait()


async def test_a_connection_with_requests_in_hand_is_not_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, AUTOMQ, "connections.max.idle.ms=5000") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.stream.send_all(waiting_fetch(1) + waiting_fetch(2))
        for _ in range(14):
            await wait_all_tasks_blocked(0.01)
            mock_clock.jump(4.25)
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(0.5)
        assert await correlation_ids(client, 2) == [1, 2]
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(4.999)
        await wait_all_tasks_blocked(0.01)
        assert not channel_of(broker, client).closed
        mock_clock.jump(0.001)
        assert await client.is_closed()


async def test_the_permits_and_the_queues_are_shown_to_prometheus(tmp_path: Path) -> None:
    async with running_broker(tmp_path, AUTOMQ, "num.io.threads=2") as broker:
        page = broker.server.prometheus.page()
        assert "kafka_network_requestchannel_availablerequestsize 104857600" in page
        assert 'kafka_network_requestchannel_handlerqueuesize{handler="1"} 0' in page


async def test_the_number_of_handlers_cannot_change_and_that_of_processors_can(tmp_path: Path) -> None:
    """A change would move connections to other handlers and reorder their requests."""
    async with running_broker(tmp_path, AUTOMQ, "num.io.threads=4", "num.network.threads=2") as broker:
        client = await broker.connect()
        error, words = await alter_through(client, {"num.io.threads": "5"})
        assert error == 42 and "must be 4 until restart" in str(words)
        assert await alter_through(client, {"num.io.threads": "4"}) == (0, None)
        assert await alter_through(client, {"num.network.threads": "3"}) == (0, None)
        assert len(list(broker.server.socket_server.processors())) == 3
        assert await is_served(client)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_a_request_whose_connection_went_before_its_turn_does_not_wait(
    tmp_path: Path, mode: str
) -> None:
    """Otherwise the fetch would wait for its whole max_wait_ms without a receiver for the response."""
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        ((processor, channel),) = (
            (processor, channel)
            for processor in broker.server.socket_server.processors()
            for channel in processor.selector
        )
        assert processor._admit(channel, waiting_fetch(1)[4:], broker.server.clock.ns()) is None
        processor.selector.close_channel(channel, "torn off")
        await wait_all_tasks_blocked(0.02)
        assert broker.server.socket_server.requests.depth() == 0
        assert broker.server.fetches.delayed == 0


async def test_floods_of_tiny_requests_take_turns_with_all_others(broker: RunningBroker) -> None:
    """Ten connections with 4,000 in one read of 64 KiB each, which need no handler."""
    (processor,) = broker.server.socket_server.processors()
    floods = [await broker.connect() for _ in range(10)]
    for flood in floods:
        await flood.stream.send_all(numbered(18, 0, 0, b""))
        assert await correlation_ids(flood, 1) == [0]
    channels, submit, taken = list(broker.server.socket_server.channels()), processor._buffered_events, []

    def counted() -> Iterator[Event]:
        before = sum(channel.requests for channel in channels)
        yield from submit()
        taken.append(sum(channel.requests for channel in channels) - before)

    async def read(flood: WireClient) -> None:
        assert await correlation_ids(flood, 4_000) == list(range(1, 4_001))

    if COMPILED:
        pytest.skip("a compiled method cannot be replaced")
    processor._buffered_events = counted  # type: ignore[method-assign]
    stream = b"".join(numbered(18, 0, number, b"") for number in range(1, 4_001))
    async with trio.open_nursery() as nursery:
        for flood in floods:
            nursery.start_soon(flood.stream.send_all, stream)
            nursery.start_soon(read, flood)
    assert 64 < max(taken) < 256 + len(floods)
