"""A gateway that is drained while another one is there, before Weir's own broker, on Trio's mock clock."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.load import load
from broker.controller.rows.upstream import DrainState
from broker.gateway.draining.moves import SETTLES_S
from broker.network.clock import TrioClock
from broker.protocol.messages.describe_cluster import DescribeClusterRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.server.app import run_server
from broker.server.gateway import GatewayServer
from tests.gateway.test_drain import end_of, ends, frame_of, in_flight, log_end, polling
from tests.gateway.test_forwarding import FETCH_VERSION, fetch, produce
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import until
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import connect_tls

TIMEOUT_S: Final = 8.0
TURNS_S: Final = 6.0
"""The timeout less the quarter of it in which clients still come back."""

STAYS_S: Final = 2.0
LARGE: Final = 900_000


@asynccontextmanager
async def two_gateways(
    tmp_path: Path, *overrides: str, others: tuple[str, ...] = ()
) -> AsyncIterator[tuple[RunningBroker, RunningGateway, RunningGateway]]:
    """A broker, a gateway whose clients may go to another one, and that one."""
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "other", broker.port, *others) as other,
        running_gateway(
            tmp_path / "gateway",
            broker.port,
            f"gateway.drain.to=127.0.0.1:{other.first_port}-{other.first_port + 7}",
            f"gateway.drain.timeout.ms={TIMEOUT_S * 1000:.0f}",
            *overrides,
        ) as gateway,
    ):
        client = await broker.connect()
        await client.ask(create_topic("events"), 5)
        yield broker, gateway, other
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        clock.autojump_threshold = 0.02  # the rest of the drain is of no interest


async def jump(clock: MockClock, seconds: float) -> None:
    """Let time pass, and everything happen that is due then."""
    await wait_all_tasks_blocked(0.02)
    clock.jump(seconds)
    await wait_all_tasks_blocked(0.02)


async def begin(gateway: RunningGateway) -> None:
    """Begin to drain as the console does, and wait until the other gateway is known."""
    gateway.server.leaving.begin()
    await until(lambda: bool(gateway.server.leaving.row().to) or gateway.server.leaving.finished.is_set())
    await wait_all_tasks_blocked(0.02)


async def finished(gateway: RunningGateway) -> None:
    """Let time pass until the drain is over."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    clock.autojump_threshold = 0.02
    with trio.fail_after(WITHIN_S):
        await gateway.server.leaving.finished.wait()


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_idle_connections_end_evenly_over_the_timeout(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        for _ in range(4):
            await produce(await gateway.connect(), batch_of(b"x"))
            await jump(mock_clock, 0.1)
        began = trio.current_time()
        await begin(gateway)
        left = [len(gateway.channels())]
        for _ in range(3):
            await jump(mock_clock, TURNS_S / 4 - 0.001)
            left.append(len(gateway.channels()))
            await jump(mock_clock, 0.001)
            left.append(len(gateway.channels()))
        await finished(gateway)
        assert left == [3, 3, 2, 2, 1, 1, 0]
        assert trio.current_time() - began == pytest.approx(TURNS_S * 3 / 4 + STAYS_S)
        assert gateway.server.leaving.row().state is DrainState.DRAINED


async def test_a_search_for_the_other_gateways_takes_no_turn(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those whose time has passed meanwhile would connect elsewhere all at once."""
    async with two_gateways(tmp_path) as (_, gateway, _):
        for _ in range(4):
            await produce(await gateway.connect(), batch_of(b"x"))
        leaving = gateway.server.leaving
        find = leaving._find

        async def find_late() -> None:
            await trio.sleep(4)
            await find()

        monkeypatch.setattr(leaving, "_find", find_late)
        leaving.begin()
        await jump(mock_clock, 3.999)
        assert len(gateway.channels()) == 4
        await jump(mock_clock, 0.001)
        await until(lambda: bool(leaving.row().to))
        left = [len(gateway.channels())]
        for _ in range(3):
            await jump(mock_clock, 0.749)
            left.append(len(gateway.channels()))
            await jump(mock_clock, 0.001)
            left.append(len(gateway.channels()))
        await finished(gateway)
        assert left == [3, 3, 2, 2, 1, 1, 0]


async def test_the_connection_that_was_idle_longest_ends_first(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        first, second, waiting = [await gateway.connect() for _ in range(3)]
        for client in (waiting, second, first):
            await jump(mock_clock, 0.1)
            await produce(client, batch_of(b"x"))
        await waiting.send(polling(60_000, offset=3), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        await ends(second)
        assert len(gateway.channels()) == 2
        await jump(mock_clock, TURNS_S / 3 + 0.001)
        await ends(first)
        assert len(gateway.channels()) == 1


async def test_a_waiting_fetch_is_answered_before_its_connection_ends(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        client = await gateway.connect()
        await client.send(polling(5_000), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        await jump(mock_clock, 4.999)
        assert len(gateway.channels()) == 1
        await jump(mock_clock, 0.001)
        _, answer = await client.receive(1, FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == 0
        await ends(client)
        await finished(gateway)
        assert not warnings()


async def test_a_fetch_that_waits_beyond_the_timeout_is_not_answered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """As in every stop: half a second after the timeout its connection ends, and the client asks again."""
    async with two_gateways(tmp_path) as (_, gateway, _):
        client = await gateway.connect()
        await client.send(polling(60_000), FETCH_VERSION)
        await in_flight(gateway, 1)
        began = trio.current_time()
        await begin(gateway)
        await jump(mock_clock, TIMEOUT_S)
        await jump(mock_clock, 0.499)
        assert len(gateway.channels()) == 1
        await jump(mock_clock, 0.001)
        await ends(client)
        await finished(gateway)
        assert trio.current_time() - began == pytest.approx(TIMEOUT_S + 0.5)


async def test_a_busy_connection_is_read_for_half_a_second_and_then_answered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (broker, gateway, _):
        client = await gateway.connect()
        await client.send(polling(700, offset=0), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        await jump(mock_clock, 0.499)
        await client.send(produce_request(batch_of(b"in time"), acks=1), PRODUCE_VERSION)
        await in_flight(gateway, 2)
        await jump(mock_clock, 0.001)
        await client.send(produce_request(batch_of(b"late"), acks=1), PRODUCE_VERSION)
        await jump(mock_clock, 0.2)
        await client.receive(1, FETCH_VERSION)
        await client.receive(0, PRODUCE_VERSION)
        await ends(client)
        await finished(gateway)
        assert end_of(broker) == 1


async def test_several_requests_that_arrive_together_at_its_turn_are_answered(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (broker, gateway, _):
        client = await gateway.connect()
        await client.send(polling(400), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        frame = await frame_of(client, 1, 100)
        await client.stream.send_all(frame * 3)
        await in_flight(gateway, 4)
        await jump(mock_clock, 0.4)
        await client.receive(1, FETCH_VERSION)
        for _ in range(3):
            await client.receive(0, PRODUCE_VERSION)
        await ends(client)
        assert end_of(broker) == 3


async def test_a_client_that_ends_its_stream_at_its_turn_is_let_go(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        client = await gateway.connect()
        await client.send(polling(5_000), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        await client.stream.send_eof()
        await until(lambda: all(channel.has_ended for channel in gateway.server.socket_server.channels()))
        await jump(mock_clock, 5)
        await client.receive(1, FETCH_VERSION)
        await ends(client)
        await finished(gateway)


async def test_a_request_of_which_a_part_is_upstream_is_forwarded_to_its_end(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with two_gateways(tmp_path) as (broker, gateway, _):
        client = await gateway.connect()
        await produce(client, batch_of(b"first"))
        frame = await frame_of(client, 1)
        await client.stream.send_all(frame[:500_000])
        channels = gateway.server.socket_server.channels
        await until(lambda: sum(each.requests for each in channels()) == 2)
        await begin(gateway)
        await jump(mock_clock, 1.2)
        assert len(gateway.channels()) == 1
        await client.stream.send_all(frame[500_000:])
        _, answer = await client.receive(0, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].base_offset == 1
        await ends(client)
        await finished(gateway)
        await log_end(broker, 2)
        assert not warnings()


async def test_so_it_is_on_a_tls_listener(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path, *tls_settings(), others=tls_settings()) as (broker, gateway, _):
        client = await connect_tls(gateway.port, certificates().client_context())
        await produce(client, batch_of(b"first"))
        await client.send(polling(400, offset=1), FETCH_VERSION)
        await in_flight(gateway, 1)
        await begin(gateway)
        frame = await frame_of(client, 1, 100)
        await client.stream.send_all(frame * 3)
        await in_flight(gateway, 4)
        await jump(mock_clock, 0.4)
        await client.receive(1, FETCH_VERSION)
        for _ in range(3):
            await client.receive(0, PRODUCE_VERSION)
        with trio.fail_after(WITHIN_S):
            assert await client.stream.receive_some(1) == b""
        assert end_of(broker) == 4


async def test_answers_name_the_other_gateway_from_the_beginning_on(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, other):
        idle, client = await gateway.connect(), await gateway.connect()
        (node,) = gateway.server.cluster.nodes
        metadata = MetadataRequest([MetadataRequestTopic(name="events")], False)
        before = await client.ask(metadata, 9)
        assert [(each.host, each.port) for each in before.brokers] == [
            ("127.0.0.1", gateway.first_port + node)
        ]
        await jump(mock_clock, 0.1)
        await client.ask(metadata, 9)
        await begin(gateway)
        await ends(idle)
        expected = ("127.0.0.1", other.first_port + node)
        after = await client.ask(metadata, 9)
        assert [(each.host, each.port) for each in after.brokers] == [expected]
        cluster = await client.ask(DescribeClusterRequest(), 0)
        assert [(each.host, each.port) for each in cluster.brokers] == [expected]
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        assert [(each.host, each.port) for each in found.coordinators] == [expected]
        assert gateway.server.leaving.row().to == (f"127.0.0.1:{other.first_port}-{other.first_port + 7}",)
        moved = await other.connect(port=other.first_port + node)
        await produce(moved, batch_of(b"x"))


async def test_listeners_close_and_readiness_ends_at_the_beginning(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        await gateway.connect()
        assert gateway.server.is_ready
        await begin(gateway)
        assert not gateway.server.is_ready
        with pytest.raises(OSError):
            await gateway.connect()


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_client_that_comes_back_to_a_node_learns_its_new_address(
    tmp_path: Path, mock_clock: MockClock, is_stopped: bool
) -> None:
    """franz-go asks no other address for its group's coordinator as long as it knows only old ones."""
    async with two_gateways(tmp_path) as (_, gateway, other):
        (node,) = gateway.server.cluster.nodes
        port = gateway.first_port + node
        first, second = [await gateway.connect(port=port) for _ in range(2)]
        for client in (first, second):
            await produce(client, batch_of(b"x"))
            await jump(mock_clock, 0.1)
        if is_stopped:
            gateway.stop.set()
        await begin(gateway)
        await ends(first)
        back = await gateway.connect(port=port)
        found = await back.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        assert [each.port for each in found.coordinators] == [other.first_port + node]
        await jump(mock_clock, TURNS_S / 2)
        await ends(second)
        await jump(mock_clock, TURNS_S / 2 - 0.001)
        assert len(gateway.channels()) == 1
        await jump(mock_clock, 0.001)
        await ends(back)
        await jump(mock_clock, STAYS_S - 0.001)
        assert not gateway.server.leaving.finished.is_set()
        await trio.aclose_forcefully((await gateway.connect(port=port)).stream)
        await jump(mock_clock, 0.001)
        await finished(gateway)
        with pytest.raises(OSError):
            await gateway.connect(port=port)


async def test_after_the_last_turn_a_drain_waits_for_clients_that_come_back(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path, "gateway.drain.timeout.ms=60000") as (_, gateway, _):
        await produce(await gateway.connect(), batch_of(b"x"))
        await begin(gateway)
        assert not gateway.channels()
        await jump(mock_clock, 4.999)
        assert not gateway.server.leaving.finished.is_set()
        await jump(mock_clock, 0.001)
        assert gateway.server.leaving.finished.is_set()


async def test_a_second_request_changes_nothing(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        for _ in range(2):
            await produce(await gateway.connect(), batch_of(b"x"))
        await begin(gateway)
        row = gateway.server.leaving.row()
        await jump(mock_clock, 1)
        gateway.server.leaving.begin()
        assert gateway.server.leaving.row() == row
        assert row.state is DrainState.DRAINING and (row.connections, row.at_first) == (1, 2)
        assert row.since_at_ms is not None and row.ends_at_ms == row.since_at_ms + TIMEOUT_S * 1000
        await finished(gateway)


async def test_a_stop_within_a_drain_goes_on_with_it(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        for _ in range(2):
            await produce(await gateway.connect(), batch_of(b"x"))
        began = trio.current_time()
        await begin(gateway)
        await jump(mock_clock, 1)
        gateway.stop.set()
        await jump(mock_clock, TURNS_S / 2 - 1)
        await jump(mock_clock, STAYS_S - 0.001)
        assert not gateway.started.stopped.is_set()
        await jump(mock_clock, 0.001)
        await gateway.started.stopped.wait()
        assert trio.current_time() - began == pytest.approx(TURNS_S / 2 + STAYS_S)


async def test_a_drained_gateway_stays_until_it_is_stopped(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        await produce(await gateway.connect(), batch_of(b"x"))
        await begin(gateway)
        await finished(gateway)
        await jump(mock_clock, 100)
        assert not gateway.started.stopped.is_set()
        assert gateway.server.leaving.row().connections == 0
        gateway.stop.set()
        with trio.fail_after(WITHIN_S):
            await gateway.started.stopped.wait()


async def test_without_connections_a_drain_is_over_at_once(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        await begin(gateway)
        await finished(gateway)
        assert trio.current_time() == 0


async def test_a_stop_moves_clients_too(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_gateways(tmp_path) as (_, gateway, other):
        idle, client = await gateway.connect(), await gateway.connect()
        await jump(mock_clock, 0.1)
        await produce(client, batch_of(b"x"))
        gateway.stop.set()
        await ends(idle)
        await client.send(MetadataRequest([], False), 9)
        await jump(mock_clock, SETTLES_S)
        _, metadata = await client.receive(MetadataRequest.API_KEY, 9)
        assert [each.port for each in metadata.brokers] == [other.first_port + 1]
        await jump(mock_clock, TURNS_S / 2)
        await ends(client)
        await finished(gateway)
        await gateway.started.stopped.wait()


async def test_if_nothing_accepts_elsewhere_all_connections_end_at_once(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "gateway", broker.port, "gateway.drain.to=127.0.0.1:1-8") as gateway,
    ):
        for _ in range(3):
            await gateway.connect()
        await until(lambda: len(gateway.channels()) == 3)
        await begin(gateway)
        await finished(gateway)
        assert gateway.server.leaving.row().to == ()
        assert trio.current_time() == 0


async def test_if_the_other_gateway_goes_all_connections_end_at_once(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, other):
        for _ in range(3):
            await produce(await gateway.connect(), batch_of(b"x"))
        await begin(gateway)
        other.stop.set()
        await other.started.stopped.wait()
        assert len(gateway.channels()) == 2
        await jump(mock_clock, 1)
        await finished(gateway)
        assert trio.current_time() == pytest.approx(1)
        assert warnings() == ["no other gateway is left for the clients of this one"]


async def test_a_client_that_takes_nothing_is_cut_off_after_the_time_of_a_stop(
    tmp_path: Path, mock_clock: MockClock, warnings: Callable[[], list[str]]
) -> None:
    async with two_gateways(tmp_path, "shutdown.drain.timeout.ms=3000") as (broker, gateway, _):
        producer, client = await broker.connect(), await gateway.connect()
        for _ in range(16):
            await produce(producer, batch_of(bytes(LARGE)))
        await client.send(fetch(0, 16 * LARGE), FETCH_VERSION)
        channels = gateway.server.socket_server.channels
        await until(lambda: any(each.send is not None for each in channels()))
        await begin(gateway)
        await jump(mock_clock, TIMEOUT_S)
        await jump(mock_clock, 2.999)
        assert len(gateway.channels()) == 1
        await jump(mock_clock, 0.001)
        await finished(gateway)
        assert not gateway.channels()
        assert warnings() == ["the drain timed out with requests in progress"]


async def test_a_drain_that_is_cancelled_leaves_the_connections_open(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_gateways(tmp_path) as (_, gateway, _):
        clients = [await gateway.connect() for _ in range(2)]
        for client in clients:
            await produce(client, batch_of(b"x"))
        leaving = gateway.server.leaving
        leaving.begin()
        with trio.CancelScope() as scope:
            scope.cancel()
            await leaving.run()
        assert scope.cancelled_caught
        assert len(gateway.channels()) == 2
        assert leaving not in gateway.server.socket_server.observers


async def test_a_drain_before_a_listener_accepts_holds_up_neither_start_nor_stop(tmp_path: Path) -> None:
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0",
        f"log.dirs={tmp_path}",
        "console.listener=",
        "events.topics=",
        "upstream.bootstrap.servers=127.0.0.1:1",
    )
    server = GatewayServer(load(None, settings, {}), TrioClock())
    is_asked = trio.Event()

    async def may_accept(_listener: str) -> None:
        is_asked.set()
        await trio.sleep_forever()

    server.may_accept = may_accept  # type: ignore[method-assign]
    try:
        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                stop = trio.Event()
                nursery.start_soon(run_server, server, stop)
                await is_asked.wait()
                server.leaving.begin()
                await server.leaving.finished.wait()
                stop.set()
    finally:
        server.close()
