"""A whole broker with bounded memory (KIP-72): the order of waiting connections, and which close."""

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.monitoring.prometheus.handlers import memory_families
from broker.network.connection.channel import Channel
from broker.network.connection.receive import Receive
from broker.network.failures import FailedStep
from broker.network.selector import Ending, Selector
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.metadata import MetadataRequest
from tests.network.test_pipelining import correlation_ids, encoded, stored
from tests.support.hostile import is_served, log_texts, until
from tests.support.memory import BEGUN, BOUNDED, KIB, POOL, readable, settled, taker_of_all, used, waiting
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.replacing import replace_method
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import connection_rows
from tests.support.wire import connect


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *BOUNDED) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


# Who waits


async def test_without_a_bound_nothing_is_asked(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "queued.max.request.bytes=-1") as broker:
        client = await broker.connect()
        assert await is_served(client)
        assert broker.server.socket_server.memory is None
        (channel,) = broker.server.socket_server.channels()
        assert type(channel.receive) is Receive
        (processor,) = broker.server.socket_server.processors()
        assert type(processor.selector.poll).__name__ == "builtin_function_or_method"


async def test_waiting_requests_are_served_as_soon_as_memory_is_back(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """No time passes, since nothing polls."""
    taker = await taker_of_all(broker)
    polite = await broker.connect()
    started = trio.current_time()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    assert waiting(broker) == 1 and not readable(polite)
    await taker.stream.aclose()
    await polite.receive(3, 9)
    assert trio.current_time() == started
    assert (used(broker), waiting(broker)) == (0, 0)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_requests_of_one_connection_keep_their_order_under_pressure(tmp_path: Path, mode: str) -> None:
    """Ten connections send more than fits, in every size, all at once."""

    async def converse(number: int) -> None:
        client = await broker.connect(f"client-{number}")
        stream = b"".join(
            encoded(produce_request(batch_of(bytes((10, 90_000, 200_000)[at % 3]))), 8, at)
            for at in range(number, number + 30)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, stream)
            for at in range(number, number + 30, 5):
                assert await correlation_ids(client, 5) == list(range(at, at + 5))

    async with running_broker(tmp_path, *BOUNDED, f"socket.server.mode={mode}") as broker:
        await (await broker.connect()).ask(create_topic(), 5)
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(converse, number)
        assert stored(broker) == 300
        assert (used(broker), waiting(broker)) == (0, 0)
        assert broker.server.socket_server.frames.outstanding == 0


async def test_waiting_connections_are_shown_with_the_used_memory(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await taker_of_all(broker)
    waits = await broker.connect()
    await waits.send(MetadataRequest([]), 9)
    await settled()
    views = broker.server.views
    figures = views.overview().metrics
    assert (figures.memory_pool_used, figures.memory_pool_size) == (POOL, POOL)
    states = {row.address + row.connection_id: row.mute_state for row in connection_rows(views)}
    assert sorted(states.values()) == ["muted_for_memory", "not_muted", "not_muted"]
    (reaper,) = (row for row in views.live.tasks() if row.name == "memory-pool-reaper")
    assert reaper.kind == "reaper"
    assert [(each.name, each.now, each.capacity) for each in reaper.owns] == [
        ("bytes of requests", POOL, POOL),
        ("connections waiting for memory", 1, None),
    ]


async def test_kafkas_figures_are_exposed(broker: RunningBroker, mock_clock: MockClock) -> None:
    def figures() -> dict[str, float]:
        page = memory_families({"broker": broker.server.socket_server.memory}, broker.server.clock.ms())
        return {family.name.rpartition("_")[2]: family.samples[0].value for family in page}

    assert figures() == {
        "memorypoolavailable": POOL,
        "memorypoolused": 0,
        "memorypoolavgdepletedpercent": 0,
        "memorypooldepletedtimetotal": 0,
        "waiting": 0,
    }
    taker = await taker_of_all(broker)
    mock_clock.jump(1)
    waits = await broker.connect()
    await waits.send(MetadataRequest([]), 9)
    await settled()
    mock_clock.jump(3)
    values = figures()
    assert (values["memorypoolavailable"], values["memorypoolused"], values["waiting"]) == (0, POOL, 1)
    # From the first refusal on, and while it lasts: 3 s of these 4 and the half minute before.
    assert values["memorypooldepletedtimetotal"] == 3_000
    assert values["memorypoolavgdepletedpercent"] == 3_000 / 34_000
    mock_clock.jump(1)
    await taker.stream.aclose()
    await waits.receive(3, 9)
    mock_clock.jump(10)
    assert figures()["memorypooldepletedtimetotal"] == 4_000


def test_without_the_key_the_figures_are_those_of_no_pool() -> None:
    available, used, *_ = memory_families({"broker": None}, 0)
    assert (available.samples[0].value, used.samples[0].value) == (2**63 - 1, 0)


async def test_a_connection_in_line_is_not_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    settings = ("connections.max.idle.ms=5000", "queued.request.stall.timeout.ms=60000")
    async with running_broker(tmp_path, *BOUNDED, *settings) as broker:
        polite = await broker.connect()
        await settled()
        mock_clock.jump(4)
        taker = await taker_of_all(broker)
        await polite.stream.send_all(struct.pack(">i", 50))
        await settled()
        assert waiting(broker) == 1
        mock_clock.jump(1)
        await settled()
        assert waiting(broker) == 1, "its four bytes are with us, and the kernel has none to show"
        mock_clock.jump(4)
        assert await taker.is_closed()
        await settled()
        assert (used(broker), waiting(broker)) == (0, 0)


@pytest.mark.parametrize("ends", ["eof", "reset"])
async def test_silent_requests_that_wait_for_memory_are_stored_though_their_client_is_gone(
    broker: RunningBroker, mock_clock: MockClock, ends: str
) -> None:
    """acks=0 expects no response."""
    taker = await taker_of_all(broker)
    client = await broker.connect()
    await client.stream.send_all(encoded(produce_request(batch_of(b"last words"), acks=0), 9, 1) * 3)
    await settled()
    if ends == "reset":
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await client.stream.aclose()
    await settled()
    assert waiting(broker) == 1
    await taker.stream.aclose()
    await settled()
    assert stored(broker) == 3
    assert (used(broker), waiting(broker), len(list(broker.server.socket_server.channels()))) == (0, 0, 1)


# Who is hung up on


@pytest.mark.parametrize(("passed", "closed"), [(4.999, False), (5.0, True)])
async def test_a_request_that_stands_still_is_given_up_when_others_have_waited_for_it(
    broker: RunningBroker,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    passed: float,
    closed: bool,
) -> None:
    await taker_of_all(broker)
    mock_clock.jump(60)
    await settled()
    assert used(broker) == POOL, "no connection waits for it"
    polite = await broker.connect()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    mock_clock.jump(passed)
    await settled()
    assert readable(polite) is closed
    assert len(log_texts(caplog)) == closed
    if closed:
        assert log_texts(caplog) == [
            "a request made no progress for 5000 ms while others waited for its memory"
        ]


@pytest.mark.parametrize(("more", "closed"), [(64 * KIB - 1, True), (64 * KIB, False)])
async def test_a_request_that_goes_on_is_waited_for(
    broker: RunningBroker, mock_clock: MockClock, more: int, closed: bool
) -> None:
    taker = await taker_of_all(broker)
    polite = await broker.connect()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    mock_clock.jump(4.999)
    await taker.stream.send_all(bytes(more))
    await settled()
    mock_clock.jump(0.001)
    await settled()
    assert readable(polite) is closed
    mock_clock.jump(4.999)
    await settled()
    assert readable(polite)


async def test_the_one_that_has_stood_still_the_longest_is_given_up_first(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = (f"queued.max.request.bytes={2 * POOL}", f"socket.request.max.bytes={POOL}")
    async with running_broker(tmp_path, *settings) as broker:
        goes_on, stops = await broker.connect(), await broker.connect()
        for taker in (goes_on, stops):
            await taker.stream.send_all(BEGUN)
            await settled()
        polite = await broker.connect()
        await polite.send(MetadataRequest([]), 9)
        await settled()
        mock_clock.jump(3)
        await goes_on.stream.send_all(bytes(64 * KIB))
        await settled()
        mock_clock.jump(2)
        assert await stops.is_closed()
        await polite.receive(3, 9)
        assert used(broker) == POOL and not readable(goes_on)


async def test_twenty_that_announce_and_send_nothing_delay_no_other(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(20):
        await (await broker.connect()).stream.send_all(BEGUN[:4])
    polite = await broker.connect()
    assert await is_served(polite)
    assert used(broker) == 0


async def test_twenty_that_begin_and_go_no_further_cost_five_seconds_each(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(20):
        await (await broker.connect()).stream.send_all(BEGUN)
    await settled()
    polite = await broker.connect()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    assert waiting(broker) == 20
    for left in range(19, -1, -1):
        assert not readable(polite)
        mock_clock.jump(5)
        await settled()
        assert waiting(broker) == left
    await polite.receive(3, 9)


async def test_twenty_in_a_pool_that_holds_twenty_cost_five_seconds_in_all(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = (f"queued.max.request.bytes={20 * POOL}", f"socket.request.max.bytes={POOL}")
    async with running_broker(tmp_path, *settings) as broker:
        for _ in range(20):
            await (await broker.connect()).stream.send_all(BEGUN)
        polite = await broker.connect()
        await settled()
        await polite.send(MetadataRequest([]), 9)
        await settled()
        mock_clock.jump(5)
        await polite.receive(3, 9)
        assert used(broker) == 19 * POOL, "without waiting connections, none is closed"


async def test_a_client_that_logs_in_needs_no_memory_of_the_pool(tmp_path: Path) -> None:
    """As in Kafka, requests before login have their own limit and take no memory of the pool."""
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";',
    )
    async with running_broker(tmp_path, *BOUNDED, *settings) as broker:
        await taker_of_all(broker)
        sasl = broker.started.bootstrap[1]
        client = await connect(int(sasl.rpartition(":")[2]))
        answer = await client.ask(ApiVersionsRequest("test", "1"), 3)
        assert answer.error_code == 0
        await until(lambda: waiting(broker) == 0)


async def test_a_stalled_request_that_cannot_be_given_up_does_not_fail_the_timer(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Selector.close_channel

    def broken(selector: Selector, channel: Channel, reason: str, *level: int, **ending: Ending) -> None:
        if reason.startswith("a request made no progress"):
            raise ZeroDivisionError
        original(selector, channel, reason, *level, **ending)

    replace_method(monkeypatch, Selector, "close_channel", broken)
    await taker_of_all(broker)
    polite = await broker.connect()
    await polite.send(MetadataRequest([]), 9)
    await settled()
    mock_clock.jump(5)
    await settled()
    assert broker.server.socket_server.failures.counts[FailedStep.CLOSE] == 1
    mock_clock.jump(60)
    await settled()
    assert not broker.started.stopped.is_set()
    assert broker.server.socket_server.failures.counts[FailedStep.CLOSE] == 1
