"""Listeners added and removed at run time, and the addresses that clients of each receive."""

import logging
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.controller.commands import (
    BROKER_ITSELF,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.hostile import until
from tests.support.live import alter_through, takes_effect, task_names
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect

BOTH = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
ONE = "PLAINTEXT://127.0.0.1:0"
MAP = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,SAFE:SASL_PLAINTEXT"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


@pytest.fixture(params=["kafka", "automq"])
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[RunningBroker]:
    settings = (f"listener.security.protocol.map={MAP}", f"socket.server.mode={request.param}")
    async with running_broker(tmp_path, *settings) as running:
        yield running


def ports(broker: RunningBroker) -> dict[str, int]:
    return {
        each.name: each.acceptor.address[1]
        for each in broker.server.socket_server.listeners
        if not each.ending
    }


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def advertised_port(client: WireClient) -> int:
    answer = await client.ask(MetadataRequest([]), 9)
    return int(answer.brokers[0].port)


async def is_refused(port: int) -> bool:
    try:
        await connect(port)
    except OSError:
        return True
    return False


@takes_effect("listeners")
async def test_a_listener_is_added_and_its_clients_are_told_its_own_address(broker: RunningBroker) -> None:
    old = await broker.connect()
    assert await advertised_port(old) == broker.port
    assert await alter_through(old, {"listeners": BOTH}) == (0, None)
    assert ports(broker)["PLAINTEXT"] == broker.port  # it was left alone
    new = await connect(ports(broker)["OTHER"])
    assert await advertised_port(new) == ports(broker)["OTHER"]
    assert await advertised_port(old) == broker.port
    names = task_names("data-plane-kafka-")
    assert f"data-plane-kafka-socket-acceptor-OTHER-PLAINTEXT-{ports(broker)['OTHER']}" in names
    assert "data-plane-kafka-network-thread-1-OTHER-PLAINTEXT-1" in names
    assert broker.server.views.overview().bootstrap == tuple(
        f"127.0.0.1:{port}" for port in ports(broker).values()
    )


async def test_a_listener_is_removed_and_nothing_of_it_is_left(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = await broker.connect()
    assert await alter_through(client, {"listeners": BOTH}) == (0, None)
    port = ports(broker)["OTHER"]
    guest = await connect(port)
    assert await advertised_port(guest) == port
    assert await alter_through(client, {"listeners": None}) == (0, None)
    assert await is_refused(port)
    assert await guest.is_closed()
    await guest.stream.aclose()
    await wait_all_tasks_blocked(0.01)
    assert list(ports(broker)) == list(broker.server.endpoints) == ["PLAINTEXT"]
    assert len(broker.server.socket_server.responders) == 1
    assert not [name for name in task_names("") if "OTHER" in name]
    records = [record.message for record in caplog.records if "listener" in record.message]
    assert records == ["listener added", "listener removed"]
    assert await advertised_port(client) == broker.port


async def test_a_client_that_removes_the_listener_it_came_through_is_answered_first(
    broker: RunningBroker,
) -> None:
    client = await broker.connect()
    assert await alter_through(client, {"listeners": "OTHER://127.0.0.1:0"}) == (0, None)
    assert await client.is_closed()
    assert await is_refused(broker.port)
    other = await connect(ports(broker)["OTHER"])
    assert await advertised_port(other) == ports(broker)["OTHER"]


async def test_a_port_that_the_system_chose_may_be_said_and_taken_back(broker: RunningBroker) -> None:
    """A tool sets the ports that the system chose: no listener moves, and no connection closes."""
    client = await broker.connect()
    port = broker.port
    listeners = f"PLAINTEXT://127.0.0.1:{port},OTHER://127.0.0.1:0"
    assert await alter_through(client, {"listeners": listeners}) == (0, None)
    assert ports(broker)["PLAINTEXT"] == port
    assert await alter_through(client, {"listeners": None}) == (0, None)
    assert ports(broker) == {"PLAINTEXT": port}
    assert await advertised_port(client) == port


async def test_a_listener_that_gets_another_address_leaves_the_old_one(broker: RunningBroker) -> None:
    client = await broker.connect()
    assert await alter_through(client, {"listeners": BOTH}) == (0, None)
    port = ports(broker)["OTHER"]
    assert await alter_through(client, {"listeners": f"{ONE},OTHER://127.0.0.2:{port}"}) == (0, None)
    stream = await trio.open_tcp_stream("127.0.0.2", port)
    assert await advertised_port(WireClient(stream, "moved")) == port
    assert await is_refused(port)
    await stream.aclose()


async def test_a_request_in_hand_bounds_the_removal_by_the_time_of_the_drain(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The delayed fetch would wait for an hour."""
    settings = (f"listener.security.protocol.map={MAP}", "shutdown.drain.timeout.ms=2000")
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        assert await alter_through(client, {"listeners": BOTH}) == (0, None)
        guest = await connect(ports(broker)["OTHER"])
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
        topic = FetchTopic("events", partitions=[partition])
        await guest.send(FetchRequest(max_wait_ms=3_600_000, min_bytes=1, max_bytes=9, topics=[topic]), 11)
        await until(lambda: broker.server.fetches.delayed == 1)
        assert await alter_through(client, {"listeners": ONE}) == (0, None)
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(1.999)
        await wait_all_tasks_blocked(0.02)
        assert "OTHER" in broker.server.endpoints
        mock_clock.jump(0.001)
        assert await guest.is_closed()
        await wait_all_tasks_blocked(0.02)
        assert "OTHER" not in broker.server.endpoints
        assert broker.server.fetches.delayed == 0


async def test_a_listener_comes_back_while_its_elder_still_finishes(broker: RunningBroker) -> None:
    client = await broker.connect()
    for listeners in (BOTH, ONE, BOTH, ONE, BOTH):
        assert await alter_through(client, {"listeners": listeners}) == (0, None)
    await wait_all_tasks_blocked()
    assert len(broker.server.socket_server.listeners) == 2
    guest = await connect(ports(broker)["OTHER"])
    assert await advertised_port(guest) == ports(broker)["OTHER"]


async def test_a_storm_of_connections_on_a_listener_that_comes_and_goes_harms_no_other_client(
    broker: RunningBroker,
) -> None:
    """The removal may happen at any moment, and another client is served meanwhile."""
    client = await broker.connect()
    descriptors = len(os.listdir("/proc/self/fd"))
    port = free_port()
    both = f"{ONE},OTHER://127.0.0.1:{port}"

    async def storm() -> None:
        while True:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            except OSError:
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(storm)
        for listeners in (both, ONE) * 20:
            with trio.fail_after(WITHIN_S):
                assert await alter_through(client, {"listeners": listeners}) == (0, None)
                assert await advertised_port(client) == broker.port
        nursery.cancel_scope.cancel()
    await until(lambda: len(broker.server.socket_server.listeners) == 1)
    await until(lambda: len(os.listdir("/proc/self/fd")) == descriptors)
    quotas = broker.server.socket_server.gate.quotas
    assert quotas.total == len(list(broker.server.socket_server.channels())) == 1


async def test_a_port_that_is_taken_is_named_and_nothing_changes(broker: RunningBroker) -> None:
    client = await broker.connect()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, words = await alter_through(client, {"listeners": f"{ONE},OTHER://127.0.0.1:{port}"})
    assert (code, words) == (
        42,
        f"listeners=OTHER://127.0.0.1:{port} cannot be bound: Address already in use; "
        "stop the other program, or use another port",
    )
    assert list(ports(broker)) == ["PLAINTEXT"]
    assert broker.server.control.image.broker_configs == {}


async def test_a_port_that_is_lost_between_the_check_and_the_change_costs_that_listener_alone(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.network.socket_server.check_bindable", lambda *_: None)
    client = await broker.connect()
    with socket.socket() as taken, caplog.at_level(logging.ERROR):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listeners = f"{ONE},OTHER://127.0.0.1:{taken.getsockname()[1]}"
        assert await alter_through(client, {"listeners": listeners}) == (0, None)
    assert [record.message for record in caplog.records] == ["Unable to start acceptor for OTHER"]
    assert list(ports(broker)) == ["PLAINTEXT"]
    assert await advertised_port(client) == broker.port


async def test_validating_only_opens_no_port(broker: RunningBroker) -> None:
    client = await broker.connect()
    assert await alter_through(client, {"listeners": BOTH}, validate=True) == (0, None)
    assert list(ports(broker)) == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("settings", "resource", "words"),
    [
        ({"listeners": BOTH}, "", "Cannot update these configs at default cluster level"),
        ({"listeners": "NEW://127.0.0.1:0"}, "1", "only names in listener.security.protocol.map"),
        (
            {"advertised.listeners": "PLAINTEXT://h:1"},
            "1",
            "Cannot update these configs dynamically: [advertised.listeners]",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"},
            "1",
            "Security protocol cannot be updated for existing listener PLAINTEXT",
        ),
    ],
)
async def test_contradictory_settings_are_refused(
    broker: RunningBroker, settings: dict[str, str | None], resource: str, words: str
) -> None:
    code, message = await alter_through(await broker.connect(), settings, resource)
    assert code == 42 and message is not None and words in message


async def login(broker: RunningBroker, password: str) -> int:
    client = await connect(ports(broker)["SAFE"])
    await client.ask(SaslHandshakeRequest("PLAIN"), 1)
    answer = await client.ask(SaslAuthenticateRequest(f"\0alice\0{password}".encode()), 1)
    return int(answer.error_code)


@takes_effect("listener.security.protocol.map", "plain.sasl.jaas.config")
async def test_a_listener_with_users_is_added_whole_and_its_users_change(broker: RunningBroker) -> None:
    client = await broker.connect()
    users = "listener.name.safe.plain.sasl.jaas.config"
    settings: dict[str, str | None] = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SAFE:SASL_PLAINTEXT",
        "listeners": f"{ONE},SAFE://127.0.0.1:0",
        users: JAAS,
    }
    assert await alter_through(client, settings) == (0, None)
    assert await login(broker, "secret") == 0
    assert await alter_through(client, {users: JAAS.replace("secret", "other")}) == (0, None)
    assert await login(broker, "secret") == 58
    assert await login(broker, "other") == 0
    code, words = await alter_through(client, {users: "nonsense secret"})
    assert code == 42 and "secret" not in str(words)
    assert await login(broker, "other") == 0


@takes_effect("sasl.enabled.mechanisms")
async def test_the_mechanisms_of_a_login_change_for_all_listeners_and_for_one(tmp_path: Path) -> None:
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0,SAFE://127.0.0.1:0",
        f"listener.security.protocol.map={MAP}",
        f"listener.name.safe.plain.sasl.jaas.config={JAAS}",
    )
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()

        async def offered() -> list[str]:
            guest = await connect(ports(broker)["SAFE"])
            return list((await guest.ask(SaslHandshakeRequest("GSSAPI"), 1)).mechanisms)

        key = "sasl.enabled.mechanisms"
        assert await offered() == ["PLAIN"]
        assert await alter_through(client, {key: "PLAIN,SCRAM-SHA-256"}) == (0, None)
        assert await offered() == ["PLAIN", "SCRAM-SHA-256"]
        assert await alter_through(client, {f"listener.name.safe.{key}": "SCRAM-SHA-512"}) == (0, None)
        assert await offered() == ["SCRAM-SHA-512"]
        assert await alter_through(client, {f"listener.name.safe.{key}": None, key: None}) == (0, None)
        assert await offered() == ["PLAIN"]


async def test_changed_listeners_hold_after_a_restart(tmp_path: Path) -> None:
    settings = (f"listener.security.protocol.map={MAP}",)
    async with running_broker(tmp_path, *settings) as broker:
        assert await alter_through(await broker.connect(), {"listeners": BOTH}) == (0, None)
    async with running_broker(tmp_path, *settings) as broker:
        guest = await connect(ports(broker)["OTHER"])
        assert await advertised_port(guest) == ports(broker)["OTHER"]


async def test_a_broker_that_stops_adds_no_listener_and_its_next_start_does(tmp_path: Path) -> None:
    going_on = trio.Event()

    async def slow(_message: object, _context: object, _broker: object) -> Outcome:
        await going_on.wait()
        return Response(MetadataResponse())

    settings = (f"listener.security.protocol.map={MAP}",)
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()
        await advertised_port(client)
        server = broker.server.socket_server
        server.clear_caches()
        for route in server.listeners[0].routes.all():
            route.handle = slow
        await client.send(MetadataRequest([]), 9)
        await wait_all_tasks_blocked(0.01)
        broker.stop.set()
        await wait_all_tasks_blocked(0.01)
        alteration = ConfigAlteration(
            ConfigResource(ResourceType.BROKER, "1"), (ConfigOp("listeners", OpType.SET, BOTH),)
        )
        (outcome,) = await broker.server.control.apply(IncrementalAlterConfigs((alteration,)), BROKER_ITSELF)
        assert outcome.ok and len(server.listeners) == 1
        going_on.set()
        with trio.fail_after(WITHIN_S):
            await broker.started.stopped.wait()
    async with running_broker(tmp_path, *settings) as broker:
        assert list(ports(broker)) == ["PLAINTEXT", "OTHER"]
