"""Peers that take too much or send too little: each delays only itself, and other clients never wait long."""

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from tests.support.hostile import compact_array, is_closed_soon, is_served, request, until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.resident import resident_bytes
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

MIB = 1024 * 1024
METADATA = request(3, 1, struct.pack(">i", 0))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


async def with_topic(broker: RunningBroker, client_id: str = "polite") -> WireClient:
    client = await broker.connect(client_id)
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


async def test_announcements_that_are_not_kept_hold_next_to_nothing(broker: RunningBroker) -> None:
    """Twenty times 90 MB are announced, and some of each arrives."""
    polite = await with_topic(broker)
    before = resident_bytes()
    liars = [await broker.connect() for _ in range(20)]
    for number, liar in enumerate(liars):
        await liar.stream.send_all(struct.pack(">i", 90_000_000) + bytes(number * 20_000))
    assert await is_served(polite)
    assert resident_bytes() - before < 20 * MIB
    for liar in liars:
        await liar.stream.aclose()
    await until(lambda: broker.server.socket_server.frames.outstanding == 0)
    assert await is_served(polite)


async def test_a_frame_that_is_announced_and_comes_is_served(broker: RunningBroker) -> None:
    client = await with_topic(broker)
    await client.stream.send_all(request(18, 99, bytes(90_000_000)))
    _, answer = await client.receive(18, 0)
    assert answer.error_code == 35
    assert broker.server.socket_server.frames.outstanding == 0


async def test_a_large_request_that_is_refused_gives_its_buffer_back(broker: RunningBroker) -> None:
    for sent in (request(9_999, 0, bytes(200_000)), request(3, 9, b"\xff" * 200_000, flexible=True)):
        hostile = await broker.connect()
        await hostile.stream.send_all(sent)
        assert await hostile.is_closed()
        assert broker.server.socket_server.frames.outstanding == 0


async def test_a_request_of_a_million_names_is_refused_before_it_is_read(broker: RunningBroker) -> None:
    """Otherwise all clients would wait for ten seconds."""
    polite = await with_topic(broker)
    hostile = await broker.connect()
    body = compact_array(1_000_000) + b"\x01\x00" * 1_000_000 + bytes(4)
    await hostile.stream.send_all(request(3, 9, body, flexible=True))
    assert await is_closed_soon(hostile)
    assert await is_served(polite)


async def test_clients_that_never_read_cost_one_answer_each_and_delay_no_other_client(
    broker: RunningBroker,
) -> None:
    polite = await with_topic(broker)
    for _ in range(50):
        await polite.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=50_000_000)
    backlog = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50_000_000,
        topics=[FetchTopic("events", partitions=[partition])],
    )
    before = resident_bytes()
    for _ in range(20):
        taker = await broker.connect("taker")
        taker.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        for _ in range(10):
            await taker.send(backlog, 11)
    await wait_all_tasks_blocked(0.05)
    stuck = [channel for channel in broker.server.socket_server.channels() if channel.send is not None]
    assert len(stuck) == 20
    assert {channel.requests for channel in stuck} == {1}
    assert await is_served(polite)
    # Pages of the mapped segments are the page cache's; they are bounded by log.mapped.max.bytes.
    assert resident_bytes() - before < broker.server.config.log.mapped_max_bytes + 10 * MIB


async def test_hundreds_of_slow_senders_delay_no_other_client(broker: RunningBroker) -> None:
    polite = await with_topic(broker)
    dribblers = [await broker.connect() for _ in range(200)]
    for at in range(6):
        for dribbler in dribblers:
            await dribbler.stream.send_all(METADATA[at : at + 1])
        assert await is_served(polite)
    for dribbler in dribblers:
        await dribbler.stream.send_all(METADATA[6:])
    for dribbler in dribblers:
        _, answer = await dribbler.receive(3, 1)
        assert len(answer.brokers) == 1


async def test_a_full_request_queue_slows_and_loses_nothing(tmp_path: Path) -> None:
    """One place in the queue, one handler that waits for commits, and fifty clients that do not."""
    async with running_broker(tmp_path, "queued.max.requests=1", "num.io.threads=1") as broker:
        await with_topic(broker)
        answered: list[int] = []

        async def produce_and_create(number: int) -> None:
            client = await broker.connect(f"client-{number}")
            for turn in range(5):
                made = await client.ask(create_topic(f"topic-{number}-{turn}"), 5)
                assert made.topics[0].error_code == 0
                answer = await client.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
                answered.append(answer.responses[0].partition_responses[0].base_offset)

        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(produce_and_create, number)
        assert sorted(answered) == list(range(100))
        assert len(broker.server.control.image.topics) == 101


async def test_a_client_that_leaves_while_its_request_queues_is_forgotten(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "queued.max.requests=1", "num.io.threads=1") as broker:
        polite = await with_topic(broker)
        for number in range(30):
            leaver = await broker.connect()
            await leaver.send(create_topic(f"topic-{number}"), 5)
            leaver.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaver.stream.socket.close()
            broker.clients.remove(leaver)
        assert await is_served(polite)
        await until(lambda: len(list(broker.server.socket_server.channels())) == 1)


@pytest.mark.parametrize("acks", [0, 1])
async def test_two_hundred_held_clients_are_each_freed_once(
    tmp_path: Path, mock_clock: MockClock, acks: int
) -> None:
    """Each of the same client-id, 10,000 bytes a second for all; the last one waits the longest."""
    async with running_broker(tmp_path, "connections.max.idle.ms=86400000") as broker:
        polite = await with_topic(broker)
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 10_000)
        clients = [await broker.connect("greedy") for _ in range(200)]
        for client in clients:
            await client.send(produce_request_of(2_000, "greedy", acks=acks), PRODUCE_VERSION)
            await wait_all_tasks_blocked()
        remaining = {row.connection_id: row.remaining_ms for row in broker.server.views.quotas.throttled()}
        assert len(remaining) > 140
        for client in clients:
            if acks:
                await client.receive(0, PRODUCE_VERSION)
            await client.send(MetadataRequest([]), 9)
        await wait_all_tasks_blocked(0.02)
        assert await is_served(polite)

        answered = 0
        while broker.server.views.quotas.throttled():
            next_ms = min(row.remaining_ms for row in broker.server.views.quotas.throttled())
            mock_clock.jump(next_ms / 1000)
            await wait_all_tasks_blocked()
        for client in clients:
            await client.receive(3, 9)
            answered += 1
        assert answered == 200
        rows = {channel.id: channel.throttles for channel in broker.server.socket_server.channels()}
        assert all(rows[connection] == 1 for connection in remaining)
