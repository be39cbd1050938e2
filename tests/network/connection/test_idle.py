"""Idle connections close exactly at connections.max.idle.ms on a mock clock; active ones do not."""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.entity import Entity
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import request
from tests.support.live import task_names
from tests.support.produce import (
    PRODUCE_VERSION,
    batch_of,
    create_topic,
    produce_request,
    produce_request_of,
)
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

METADATA = request(3, 1, struct.pack(">i", 0))


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "connections.max.idle.ms=5000") as running:
        yield running


async def is_open(client: WireClient, broker: RunningBroker) -> bool:
    await wait_all_tasks_blocked(0.01)
    port = client.stream.socket.getsockname()[1]
    return port in {channel.port for channel in broker.server.socket_server.channels()}


async def passes(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize(("idle", "open_"), [(4.999, True), (5.0, False), (5.001, False)])
async def test_an_idle_connection_ends_at_the_limit(
    broker: RunningBroker, mock_clock: MockClock, idle: float, open_: bool
) -> None:
    client = await broker.connect()
    await client.stream.send_all(METADATA)
    await client.receive(3, 1)
    await passes(mock_clock, idle)
    assert await is_open(client, broker) is open_


@pytest.mark.parametrize("never", ["-1", "-9223372036854775808"])
async def test_no_idle_connection_ends_where_the_limit_is_negative(
    tmp_path: Path, mock_clock: MockClock, never: str
) -> None:
    async with running_broker(tmp_path, f"connections.max.idle.ms={never}") as broker:
        client = await broker.connect()
        await client.stream.send_all(METADATA)
        await client.receive(3, 1)
        silent = await broker.connect()
        await passes(mock_clock, 365 * 86_400)
        assert await is_open(client, broker) and await is_open(silent, broker)
        assert not [name for name in task_names("") if name.endswith("-idle-expiry")]


async def test_a_connection_that_never_said_anything_is_idle(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await wait_all_tasks_blocked(0.01)
    await passes(mock_clock, 4.999)
    assert await is_open(client, broker)
    await passes(mock_clock, 0.001)
    assert not await is_open(client, broker)


async def test_the_longest_unused_ends_first_and_every_request_counts(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    first, second = await broker.connect(), await broker.connect()
    await wait_all_tasks_blocked(0.01)
    await passes(mock_clock, 3)
    await first.stream.send_all(METADATA)
    await first.receive(3, 1)
    await passes(mock_clock, 2)
    assert await is_open(first, broker) and not await is_open(second, broker)
    await passes(mock_clock, 2.999)
    assert await is_open(first, broker)
    await passes(mock_clock, 0.001)
    assert not await is_open(first, broker)


async def test_of_many_that_are_due_the_longest_unused_goes_first_and_one_in_a_turn(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """A thousand idle connections delay no other connection."""
    clients = []
    for _ in range(5):
        clients.append(await broker.connect())
        await passes(mock_clock, 0.1)
    order = {client.stream.socket.getsockname()[1]: at for at, client in enumerate(clients)}
    (processor,) = broker.server.socket_server.processors()
    # Not in the order in which they came.
    channels = processor.selector.channels
    for fd in sorted(channels, reverse=True):
        channels[fd] = channels.pop(fd)
    ended: list[tuple[int, int]] = []
    turns = Turns()
    on_close = processor.selector._on_close
    processor.selector._on_close = lambda channel, reason: (
        ended.append((order[channel.port], turns.count)),
        on_close(channel, reason),
    )[1]
    trio.lowlevel.add_instrument(turns)
    await passes(mock_clock, 4.95)
    assert [client for client, _ in ended] == [0, 1, 2, 3, 4]
    assert len({turn for _, turn in ended}) == 5


class Turns(trio.abc.Instrument):
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_a_request_that_never_becomes_whole_does_not_count(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    dribbler = await broker.connect()
    await wait_all_tasks_blocked(0.01)
    for byte in METADATA[:5]:
        await dribbler.stream.send_all(bytes([byte]))
        await passes(mock_clock, 0.999)
    assert await is_open(dribbler, broker)
    await passes(mock_clock, 0.005)
    assert not await is_open(dribbler, broker)


async def test_a_request_that_waits_counts_as_used(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    await client.ask(create_topic(), 5)
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    waiting = FetchRequest(
        max_wait_ms=17_000,
        min_bytes=1,
        max_bytes=1_000,
        topics=[FetchTopic("events", partitions=[partition])],
    )
    await client.send(waiting, 11)
    await wait_all_tasks_blocked(0.02)
    for _ in range(4):
        await passes(mock_clock, 4.25)
    _, answer = await client.receive(1, 11)
    assert answer.error_code == 0
    assert await is_open(client, broker)


@pytest.mark.parametrize("behind", [b"", METADATA], ids=["alone", "and more"])
@pytest.mark.parametrize("how", ["plain", "tls"])
@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_a_request_that_waits_for_a_client_that_has_left_does_not(
    tmp_path: Path, mock_clock: MockClock, mode: str, how: str, behind: bytes
) -> None:
    """It could hold the connection for 24 days."""
    settings = ["connections.max.idle.ms=5000", f"socket.server.mode={mode}"]
    async with running_broker(tmp_path, *settings, *(tls_settings() if how == "tls" else ())) as broker:
        if how == "tls":
            client = await broker.connect_tls(certificates().client_context())
        else:
            client = await broker.connect()
        await client.ask(create_topic(), 5)
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
        topics = [FetchTopic("events", partitions=[partition])]
        await client.send(FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=topics), 11)
        await wait_all_tasks_blocked(0.02)
        assert broker.server.fetches.delayed == 1
        if behind:
            await client.stream.send_all(behind)
        await client.stream.aclose()
        await passes(mock_clock, 4.999)
        assert len(list(broker.server.socket_server.channels())) == 1
        await passes(mock_clock, 0.001)
        assert list(broker.server.socket_server.channels()) == []
        assert broker.server.fetches.delayed == 0


async def throttled(broker: RunningBroker) -> WireClient:
    """Return a client that is throttled for more than ten seconds."""
    client = await broker.connect("greedy")
    await client.ask(create_topic(), 5)
    broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
    answer = await client.ask(produce_request_of(60_000, "greedy"), PRODUCE_VERSION)
    assert 60_000 > answer.throttle_time_ms > 10_000
    return client


@pytest.mark.parametrize("has_sent_more", [True, False])
async def test_a_throttled_client_that_has_left_is_idle_unless_it_has_sent_more(
    broker: RunningBroker, mock_clock: MockClock, has_sent_more: bool
) -> None:
    client = await throttled(broker)
    if has_sent_more:
        await client.send(produce_request(batch_of(b"x"), acks=0), PRODUCE_VERSION)
    await client.stream.aclose()
    await passes(mock_clock, 5)
    assert len(list(broker.server.socket_server.channels())) == has_sent_more
    for _ in range(20):
        await passes(mock_clock, 3)
    log = broker.server.partitions.log("events", 0)
    assert log is not None
    assert log.high_watermark == 1 + has_sent_more
    assert list(broker.server.socket_server.channels()) == []


async def test_a_connection_that_is_held_counts_as_used(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await throttled(broker)
    for _ in range(3):
        await passes(mock_clock, 3)
    assert await is_open(client, broker)


async def test_a_client_that_takes_nothing_of_its_answer_is_idle(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """It fetches more than both sockets hold, and does not read: no progress, no use."""
    client = await broker.connect()
    await client.ask(create_topic(), 5)
    for _ in range(16):
        await client.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=16_000_000)
    await client.send(
        FetchRequest(max_bytes=16_000_000, topics=[FetchTopic("events", partitions=[partition])]), 11
    )
    (channel,) = broker.server.socket_server.channels()
    written = -1
    while channel.send is None or channel.send.written != written:
        written = channel.send.written if channel.send is not None else -1
        await wait_all_tasks_blocked(0.05)
    await passes(mock_clock, 4.999)
    assert await is_open(client, broker)
    await passes(mock_clock, 0.001)
    assert not await is_open(client, broker)


async def test_bytes_that_arrived_while_unwatched_are_served_first(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """As after SIGSTOP: when the broker continues, the idle time has passed and the request has arrived."""
    client = await broker.connect()
    await wait_all_tasks_blocked(0.01)
    client.stream.socket._sock.send(METADATA)
    mock_clock.jump(5.0)
    _, answer = await client.receive(3, 1)
    assert len(answer.brokers) == 1
