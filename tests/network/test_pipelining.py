"""Many requests on one connection at once: one in flight at a time, answered in order, none lost."""

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.network import unsendable
from broker.protocol import codec
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.hostile import framed, is_served, request, until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def client(broker: RunningBroker) -> WireClient:
    client = await broker.connect()
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    return client


def encoded(message: object, version: int, correlation_id: int) -> bytes:
    parts = codec.encode_request(message.API_KEY, version)(message, correlation_id, "tester")  # type: ignore[attr-defined]
    return b"".join(map(bytes, parts))


def numbered(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    return framed(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def stored(broker: RunningBroker) -> int:
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    return log.high_watermark


def connections(broker: RunningBroker) -> int:
    return len(list(broker.server.socket_server.channels()))


async def correlation_ids(client: WireClient, count: int) -> list[int]:
    with trio.fail_after(WITHIN_S):
        return [parse_response_header(await client.receive_frame(), 0)[0] for _ in range(count)]


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


async def test_one_request_of_a_connection_is_in_hand_at_a_time(
    broker: RunningBroker, client: WireClient
) -> None:
    """A fetch that waits holds back what was sent behind it, and a produce elsewhere releases both."""
    pipelined = await broker.connect()
    waiting = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000,
        topics=[FetchTopic("events", partitions=[FetchPartition(0)])],
    )
    waiting.topics[0].partitions[0].partition_max_bytes = 1_000
    await pipelined.stream.send_all(encoded(waiting, 11, 1) + encoded(produce_request(batch_of(b"x")), 8, 2))
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert stored(broker) == 0
    await client.ask(produce_request(batch_of(b"one")), 9)
    assert await correlation_ids(pipelined, 2) == [1, 2]
    assert stored(broker) == 2


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("pieces", [1, 10])
async def test_ten_requests_and_then_the_end_are_all_stored(
    broker: RunningBroker, client: WireClient, acks: int, pieces: int
) -> None:
    leaving = await broker.connect()
    one = encoded(produce_request(batch_of(b"last words"), acks=acks), 9, 1)
    for _ in range(pieces):
        await leaving.stream.send_all(one * (10 // pieces))
    await leaving.stream.send_eof()
    with trio.fail_after(WITHIN_S):
        while await leaving.stream.receive_some(65_536):
            pass
    assert stored(broker) == 10
    assert await is_served(client)


async def test_large_requests_and_then_the_end_are_all_stored(
    broker: RunningBroker, client: WireClient
) -> None:
    leaving = await broker.connect()
    one = encoded(produce_request(batch_of(bytes(100_000)), acks=0), 9, 1)
    small = encoded(produce_request(batch_of(b"small"), acks=0), 9, 1)
    await leaving.stream.send_all((one + small) * 5)
    await leaving.stream.aclose()
    await until(lambda: stored(broker) == 10)
    assert await is_served(client)


async def test_a_half_frame_behind_whole_ones_takes_nothing_with_it(
    broker: RunningBroker, client: WireClient
) -> None:
    leaving = await broker.connect()
    one = encoded(produce_request(batch_of(b"whole"), acks=0), 9, 1)
    await leaving.stream.send_all(one * 3 + one[:-1])
    await leaving.stream.send_eof()
    with trio.fail_after(WITHIN_S):
        assert await leaving.is_closed()
    assert stored(broker) == 3


async def test_connections_that_are_reset_leave_nothing_behind(
    broker: RunningBroker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    """RST in every state: idle, within a frame, with an answer on its way, with a fetch that waits."""
    waiting = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        max_bytes=1_000,
        topics=[FetchTopic("events", partitions=[FetchPartition(0)])],
    )
    whole = request(3, 1, struct.pack(">i", 0))
    for number in range(200):
        stream = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await stream.send_all((b"", whole[:7], whole * 50, encoded(waiting, 11, 1))[number % 4])
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()
    await until(lambda: connections(broker) == 1)
    assert broker.server.fetches.delayed == 0
    serious = [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]
    assert {record.name for record in serious} <= {unsendable.__name__}, "answers were on their way"
    assert broker.server.socket_server.frames.outstanding == 0
    assert await is_served(client)


async def test_a_storm_of_connections_comes_and_goes(broker: RunningBroker, client: WireClient) -> None:
    streams = []
    for _ in range(300):
        streams.append(await trio.open_tcp_stream("127.0.0.1", broker.port))
    await until(lambda: connections(broker) == 301)
    assert await is_served(client)
    for stream in streams:
        await stream.aclose()
    await until(lambda: connections(broker) == 1)
    assert await is_served(client)
