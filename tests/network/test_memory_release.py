"""Request memory (KIP-72) is released on every path, however the request or its connection ends."""

import contextlib
import random
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.api.requests.outcome import Hangup, Outcome
from broker.network.requests.routes import Route
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from tests.network.test_pipelining import encoded
from tests.support.hostile import is_closed_soon, is_served, request, until
from tests.support.machine_speed import WITHIN_S
from tests.support.memory import BEGUN, BOUNDED, POOL, settled, taker_of_all, used, waiting
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import connect


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *BOUNDED) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


def metadata_route(broker: RunningBroker) -> Route:
    routes = broker.server.socket_server.listeners[0].routes
    head = 3 << 16 | 9
    route = routes.get(head) or routes.build(head)
    assert route is not None
    return route


def fetch(max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000,
        topics=[FetchTopic("events", partitions=[partition])],
    )


@pytest.mark.parametrize("size", [400, 70_000, POOL])
@pytest.mark.parametrize("acks", [0, 1])
async def test_a_request_that_is_answered_or_silent_holds_nothing(
    broker: RunningBroker, mock_clock: MockClock, size: int, acks: int
) -> None:
    client = await broker.connect()
    await client.send(produce_request_of(size, "tester", acks=acks), PRODUCE_VERSION)
    if acks:
        await client.receive(0, PRODUCE_VERSION)
    assert await is_served(client)
    assert used(broker) == 0


async def test_a_small_request_counts_while_it_is_handled(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    route, seen = metadata_route(broker), []
    handle = route.handle
    route.handle = lambda *what: (seen.append(used(broker)), handle(*what))[1]
    client = await broker.connect()
    for _ in range(2):
        await client.ask(MetadataRequest([]), 9)
    size = len(encoded(MetadataRequest([]), 9, 1)) - 4
    assert (seen, used(broker)) == ([size, size], 0)


async def test_a_fetch_that_waits_holds_nothing(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    await client.send(fetch(10_000), 11)
    await settled()
    assert broker.server.fetches.delayed == 1
    assert used(broker) == 0


async def test_a_client_that_is_held_by_a_quota_holds_nothing(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
    client = await broker.connect("greedy")
    answer = await client.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
    assert answer.throttle_time_ms == 1_000
    assert used(broker) == 0
    # What it sends next stays in the kernel.
    await client.send(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
    await settled()
    assert used(broker) == 0


async def test_a_request_that_waits_for_the_disk_holds_nothing_when_it_is_answered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, *BOUNDED, "log.flush.interval.messages=1") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        for size in (400, 100_000):
            await client.ask(produce_request_of(size, "tester"), PRODUCE_VERSION)
            assert used(broker) == 0


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize(
    ("api_key", "version", "flexible"), [(9_999, 0, False), (3, 9, True)], ids=["unknown", "malformed"]
)
async def test_a_request_that_is_refused_holds_nothing(
    broker: RunningBroker, mock_clock: MockClock, api_key: int, version: int, flexible: bool, size: int
) -> None:
    hostile = await broker.connect()
    await hostile.stream.send_all(request(api_key, version, b"\xff" * size, flexible=flexible))
    assert await is_closed_soon(hostile)
    assert used(broker) == 0


async def test_a_request_whose_handler_fails_holds_nothing(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    metadata_route(broker).handle = fails
    client = await broker.connect()
    await client.send(MetadataRequest([]), 9)
    assert await is_closed_soon(client)
    assert used(broker) == 0


@pytest.mark.parametrize("begun", [b"\0\0", BEGUN[:4], BEGUN, BEGUN + bytes(100_000)])
async def test_a_connection_that_ends_within_a_request_holds_nothing(
    broker: RunningBroker, mock_clock: MockClock, begun: bytes
) -> None:
    client = await broker.connect()
    await client.stream.send_all(begun)
    await settled()
    await client.stream.aclose()
    await settled()
    assert used(broker) == 0


async def test_connections_that_end_while_their_requests_are_in_the_queue_hold_nothing(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """One place, and a handler that waits for commits: the processor itself stands before a full queue."""
    async with running_broker(tmp_path, *BOUNDED, "queued.max.requests=1", "num.io.threads=1") as broker:
        clients = [await broker.connect() for _ in range(20)]
        for number, client in enumerate(clients):
            await client.send(create_topic(f"topic-{number}"), 5)
        for client in clients:
            await client.stream.aclose()
        await until(lambda: len(broker.server.control.image.topics) == 20)
        await settled()
        assert used(broker) == 0


async def test_a_broker_that_stops_holds_nothing(tmp_path: Path) -> None:
    """With requests in hand, begun, in line, and delayed."""
    async with running_broker(tmp_path, *BOUNDED) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        await client.send(fetch(60_000), 11)
        await taker_of_all(broker)
        for size in (10, 1_000, POOL):
            await (await broker.connect()).stream.send_all(struct.pack(">i", size) + bytes(size // 2))
        await settled()
        assert waiting(broker) == 3
        broker.stop.set()
        with trio.fail_after(WITHIN_S):
            await broker.started.stopped.wait()
        assert (used(broker), waiting(broker)) == (0, 0)


@pytest.mark.parametrize("state", ["begun", "in line"])
async def test_a_listener_that_is_removed_takes_nothing_with_it(
    tmp_path: Path, mock_clock: MockClock, state: str
) -> None:
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
    protocols = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    async with running_broker(tmp_path, *BOUNDED, listeners, protocols) as broker:
        taker = await taker_of_all(broker) if state == "in line" else None
        other = broker.server.socket_server.listeners[1]
        guest = await connect(other.acceptor.address[1])
        await guest.stream.send_all(BEGUN)
        await settled()
        assert (used(broker), waiting(broker)) == (POOL, state == "in line")
        other.end()
        assert await guest.is_closed()
        assert waiting(broker) == 0
        if taker is not None:
            await taker.stream.aclose()
            await settled()
        assert used(broker) == 0


async def test_a_request_that_stands_before_a_full_queue_at_the_end_holds_nothing(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """One is with the handler and one in the queue; the processor that has the third is cancelled."""
    occupied = trio.Event()

    async def waits(*_: object) -> Outcome:
        await occupied.wait()
        return Hangup("enough")

    settings = (*BOUNDED, "queued.max.requests=1", "num.io.threads=1", "shutdown.drain.timeout.ms=3000")
    async with running_broker(tmp_path, *settings) as broker:
        metadata_route(broker).handle = waits
        for _ in range(3):
            await (await broker.connect()).send(MetadataRequest([]), 9)
            await settled()
        size = used(broker) // 3
        assert size > 0
        broker.stop.set()
        await settled()
        assert used(broker) == 3 * size
        mock_clock.jump(3)
        await settled()
        assert used(broker) == 2 * size
        occupied.set()
        await broker.started.stopped.wait()
        assert used(broker) == 0


@pytest.mark.rotates
@pytest.mark.parametrize("mode", ["kafka", "automq"])
@pytest.mark.parametrize("seed", range(8))
async def test_whenever_a_broker_stops_nothing_is_left(tmp_path: Path, seed: int, mode: str) -> None:
    """F21: clients that produce, fetch, begin and leave at random, in less memory than they want."""
    rng = random.Random(seed)
    silent = encoded(produce_request(batch_of(bytes(60_000)), acks=0), 9, 1)
    spoken = (silent, encoded(fetch(60_000), 11, 2), encoded(MetadataRequest([]), 9, 3), silent * 5)

    async def talk(port: int) -> None:
        with contextlib.suppress(OSError, trio.BrokenResourceError):
            while True:
                client = await connect(port)
                for _ in range(rng.randint(1, 6)):
                    data = rng.choice(spoken)
                    await client.stream.send_all(data[: rng.choice((len(data), rng.randint(1, len(data))))])
                    await trio.sleep(rng.random() / 100)
                await trio.aclose_forcefully(client.stream)

    async with running_broker(tmp_path, *BOUNDED, f"socket.server.mode={mode}") as broker:
        await (await broker.connect()).ask(create_topic(), 5)
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(talk, broker.port)
            await trio.sleep(rng.random() / 3)
            broker.stop.set()
            with trio.fail_after(WITHIN_S):
                await broker.started.stopped.wait()
            nursery.cancel_scope.cancel()
        assert (used(broker), waiting(broker), broker.server.socket_server.frames.outstanding) == (0, 0, 0)
