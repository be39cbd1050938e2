"""The controller's socket server has its own connection quotas and request memory: a storm on the broker's or
the controller's listener does not affect the other server.

In Kafka BrokerServer and ControllerServer each create a SocketServer, with its own ConnectionQuotas and
memory pool. The control plane of KIP-291 belongs to the broker's SocketServer.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.config.listeners import Server
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.connections import (
    CONTROLLER,
    LOOPBACK,
    PLAINTEXT,
    PLANE,
    TWO_SERVERS,
    WITH_CONTROL_PLANE,
    channel_of,
    gate_of,
    open_to,
    opened,
    passes,
    served,
    set_ip_rate,
    settle,
)
from tests.support.hostile import is_closed_soon
from tests.support.live import alter, alter_through
from tests.support.memory import readable
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

STORM = 500
UNPROTECTED = "security.inter.broker.protocol=SSL"
"""No listener has this name, so that the broker's limits bind all of them."""

SASL = (
    f"listeners=SASL_PLAINTEXT://{LOOPBACK}:0,{CONTROLLER}://{LOOPBACK}:0,{PLAINTEXT}://{LOOPBACK}:0",
    f"listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,{CONTROLLER}:SASL_PLAINTEXT,"
    f"{PLAINTEXT}:PLAINTEXT",
    *(
        f"listener.name.{name}.plain.sasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required user_alice="secret";'
        for name in ("sasl_plaintext", "controller")
    ),
)


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *TWO_SERVERS) as running:
        yield running


def other(listener: str) -> str:
    return CONTROLLER if listener == PLAINTEXT else PLAINTEXT


async def is_answered(client: WireClient) -> bool:
    """By either kind of listener, without any time going by."""
    await client.send(ApiVersionsRequest(), 0)
    await settle()
    return readable(client) and (await client.receive(ApiKey.API_VERSIONS, 0))[1].error_code == 0


# A storm on one server is not seen by the other


@pytest.mark.parametrize("stormed", [PLAINTEXT, CONTROLLER])
async def test_with_max_connections_reached_and_a_storm_of_500_the_other_server_lets_in_at_once(
    tmp_path: Path, mock_clock: MockClock, stormed: str
) -> None:
    async with running_broker(tmp_path, *TWO_SERVERS, UNPROTECTED, "max.connections=20") as broker:
        started = trio.current_time()
        storm = await opened(broker, STORM, stormed)
        assert served(broker, storm) == 20, "the others wait for a slot"
        admitted = await opened(broker, 20, other(stormed))
        assert [await is_answered(each) for each in admitted] == [True] * 20
        late = await open_to(broker, other(stormed))
        await settle()
        assert channel_of(broker, late) is None, "the same limit holds here, on its own count"
        assert served(broker, storm) == 20
        assert trio.current_time() == started


@pytest.mark.parametrize("stormed", [PLAINTEXT, CONTROLLER])
async def test_a_creation_rate_that_500_clients_use_up_does_not_hold_the_other_server(
    tmp_path: Path, mock_clock: MockClock, stormed: str
) -> None:
    rate = "max.connection.creation.rate=10"
    async with running_broker(tmp_path, *TWO_SERVERS, UNPROTECTED, rate) as broker:
        await passes(mock_clock, 10)
        started = trio.current_time()
        storm = await opened(broker, STORM, stormed)
        assert served(broker, storm) == 10
        admitted = await opened(broker, 10, other(stormed))
        assert [await is_answered(each) for each in admitted] == [True] * 10
        assert trio.current_time() == started
        assert gate_of(broker, other(stormed)).blocked.total_ns() == 0
        (eleventh,) = await opened(broker, 1, other(stormed))
        assert channel_of(broker, eleventh) is None
        await passes(mock_clock, 0.1)
        assert channel_of(broker, eleventh) is not None, "11 are a tenth too many, which 100 ms repay"


@pytest.mark.parametrize("stormed", [PLAINTEXT, CONTROLLER])
async def test_an_address_that_storms_one_server_may_still_use_the_other(
    broker: RunningBroker, mock_clock: MockClock, stormed: str
) -> None:
    """A gateway's address may be that of an administrator. Kafka tells the rule to both ConnectionQuotas."""
    await set_ip_rate(broker, 5)
    storm = await opened(broker, STORM, stormed)
    assert served(broker, storm) == 5
    admitted = await opened(broker, 6, other(stormed))
    assert served(broker, admitted) == 5, "the rule holds here, on its own count"
    assert await is_answered(admitted[0])


@pytest.mark.parametrize("stormed", [PLAINTEXT, CONTROLLER])
async def test_connections_of_an_address_are_counted_by_server(
    tmp_path: Path, mock_clock: MockClock, stormed: str
) -> None:
    async with running_broker(tmp_path, *TWO_SERVERS, "max.connections.per.ip=3") as broker:
        storm = await opened(broker, STORM, stormed)
        assert served(broker, storm) == 3
        admitted = await opened(broker, 3, other(stormed))
        assert [await is_answered(each) for each in admitted] == [True] * 3
        assert await is_closed_soon(await open_to(broker, other(stormed)))


async def log_in(broker: RunningBroker, listener: str) -> WireClient:
    """Connect as alice and send the login, which may be unanswered."""
    client = await open_to(broker, listener)
    await client.ask(SaslHandshakeRequest("PLAIN"), 1)
    await client.send(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    await settle()
    return client


async def error_of(client: WireClient) -> int:
    return int((await client.receive(ApiKey.SASL_AUTHENTICATE, 2))[1].error_code)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
@pytest.mark.parametrize("stormed", ["SASL_PLAINTEXT", CONTROLLER])
async def test_connections_of_a_user_are_counted_by_server(
    tmp_path: Path, mock_clock: MockClock, stormed: str, mode: str
) -> None:
    other_listener = CONTROLLER if stormed == "SASL_PLAINTEXT" else "SASL_PLAINTEXT"
    limits = ("max.connections.per.user=2", f"socket.server.mode={mode}")
    async with running_broker(tmp_path, *TWO_SERVERS, *SASL, *limits) as broker:
        for listener in (stormed, other_listener):
            errors = [await error_of(await log_in(broker, listener)) for _ in range(3)]
            assert errors == [0, 0, ErrorCode.SASL_AUTHENTICATION_FAILED], listener
        users = {name: each.gate.quotas.users for name, each in broker.server.socket_server.resources.items()}
        assert {name: each.counts for name, each in users.items()} == {
            Server.BROKER: {"alice": 2},
            Server.CONTROLLER: {"alice": 2},
        }
        for client in broker.clients:
            await trio.aclose_forcefully(client.stream)
        await passes(mock_clock, 1)
        assert [each.counts for each in users.values()] == [{}, {}]


async def test_a_user_that_logs_in_too_fast_is_held_on_that_server_alone(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """2 a second over two windows: the third is 3, half too many, which 500 ms repay."""
    rate = "max.connection.creation.rate.per.user=2"
    async with running_broker(tmp_path, *TWO_SERVERS, *SASL, rate) as broker:
        await passes(mock_clock, 10)
        storm = [await log_in(broker, "SASL_PLAINTEXT") for _ in range(3)]
        delayed = {name: each.users.delayed for name, each in broker.server.socket_server.resources.items()}
        assert delayed == {Server.BROKER: 1, Server.CONTROLLER: 0}
        assert not readable(storm[2])
        administrator = await log_in(broker, CONTROLLER)
        assert await error_of(administrator) == 0
        await passes(mock_clock, 0.499)
        assert not readable(storm[2])
        await passes(mock_clock, 0.001)
        assert readable(storm[2])
        assert await error_of(storm[2]) == 0


# Who is evicted


@pytest.mark.parametrize("lowered_for", [PLAINTEXT, CONTROLLER])
async def test_excess_connections_of_one_server_evict_no_client_of_the_other(
    broker: RunningBroker, mock_clock: MockClock, lowered_for: str
) -> None:
    """The administrator is the least recently used of all, and stays."""
    idle = (await opened(broker, 2, other(lowered_for)))[0]
    await passes(mock_clock, 60)
    (operator,) = await opened(broker, 1, PLAINTEXT)
    crowd = await opened(broker, 8, lowered_for)
    before = served(broker, crowd)
    assert before == 8
    assert await alter_through(operator, {"max.connections": "4"}) == (0, None)
    await settle()
    totals = {each.total for each in (r.gate.quotas for r in broker.server.socket_server.resources.values())}
    assert max(totals) == 4
    assert channel_of(broker, idle) is not None
    assert await is_answered(idle)


async def test_a_limit_that_an_administrator_lowers_in_a_storm_closes_the_brokers_connections_only(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    (administrator,) = await opened(broker, 1, CONTROLLER)
    await passes(mock_clock, 60)
    storm = await opened(broker, STORM, PLAINTEXT)
    assert served(broker, storm) == STORM
    assert await alter_through(administrator, {"max.connections": "1"}) == (0, None)
    await settle()
    assert served(broker, storm) == 1
    assert await is_answered(administrator)


# Which keys hold where


async def test_a_listeners_own_limits_hold_on_either_server(tmp_path: Path, mock_clock: MockClock) -> None:
    own = ("listener.name.controller.max.connections=1", "listener.name.plaintext.max.connections=2")
    async with running_broker(tmp_path, *TWO_SERVERS, "max.connections=3", *own) as broker:
        administrators, clients = await opened(broker, 2, CONTROLLER), await opened(broker, 3, PLAINTEXT)
        assert (served(broker, administrators), served(broker, clients)) == (1, 2)


async def test_a_limit_that_is_set_while_it_runs_holds_on_both_servers(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, max_connections="2")
    for listener in (PLAINTEXT, CONTROLLER):
        clients = await opened(broker, 3, listener)
        assert served(broker, clients) == 2, listener


async def test_connections_are_released_on_the_server_that_counted_them(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = [*await opened(broker, 3, PLAINTEXT), *await opened(broker, 2, CONTROLLER)]
    quotas = {name: each.gate.quotas for name, each in broker.server.socket_server.resources.items()}
    assert {name: each.total for name, each in quotas.items()} == {Server.BROKER: 3, Server.CONTROLLER: 2}
    for client in clients:
        await client.stream.aclose()
    await settle()
    assert {name: (each.total, each.counts) for name, each in quotas.items()} == {
        Server.BROKER: (0, {}),
        Server.CONTROLLER: (0, {}),
    }


# The protected listener


async def test_beside_a_controllers_listener_the_brokers_only_one_is_not_protected(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Protection takes two listeners of the same server."""
    own = "listener.name.plaintext.max.connections=10"
    async with running_broker(tmp_path, *TWO_SERVERS, "max.connections=2", own) as broker:
        clients = await opened(broker, 3, PLAINTEXT)
        assert served(broker, clients) == 2
        administrators = await opened(broker, 3, CONTROLLER)
        assert served(broker, administrators) == 2


async def test_beside_a_control_plane_the_inter_broker_listener_is_protected(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The control plane is a listener of the broker's server, in Kafka up to 3.9."""
    async with running_broker(tmp_path, *WITH_CONTROL_PLANE, "max.connections=2") as broker:
        plane = await opened(broker, 3, PLANE)
        assert served(broker, plane) == 2, "one count for the broker's listeners together"
        clients = await opened(broker, 1, PLAINTEXT)
        assert served(broker, clients) == 1, "the protected one goes on"
        assert served(broker, plane) == 1, "and the least recently used of the others was closed"
        administrators = await opened(broker, 2, CONTROLLER)
        assert served(broker, administrators) == 2


@pytest.mark.parametrize(
    ("settings", "protected"),
    [
        (("inter.broker.listener.name=OUTER",), "OUTER"),
        (("security.inter.broker.protocol=SASL_PLAINTEXT",), "SASL_PLAINTEXT"),
        (("security.inter.broker.protocol=SASL_PLAINTEXT", "inter.broker.listener.name=OUTER"), "OUTER"),
        ((), None),
        (("security.inter.broker.protocol=SSL",), None),
    ],
)
async def test_the_keys_say_which_of_the_brokers_listeners_is_protected(
    tmp_path: Path, settings: tuple[str, ...], protected: str | None
) -> None:
    """Without a name it is the listener that is called like the protocol, which need not be there."""
    three = (
        f"listeners=SASL_PLAINTEXT://{LOOPBACK}:0,OUTER://{LOOPBACK}:0,{CONTROLLER}://{LOOPBACK}:0",
        f"listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,OUTER:PLAINTEXT,{CONTROLLER}:PLAINTEXT",
        *TWO_SERVERS[2:],
        "sasl.enabled.mechanisms=PLAIN",
    )
    async with running_broker(tmp_path, *three, *settings) as broker:
        listeners = [
            each
            for r in broker.server.socket_server.resources.values()
            for each in r.gate.quotas.listeners.values()
        ]
        assert len(listeners) == 3
        assert [each.name for each in listeners if each.protected] == ([protected] if protected else [])


async def test_protection_comes_and_goes_with_the_brokers_second_listener(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    one = f"{PLAINTEXT}://{LOOPBACK}:0,{CONTROLLER}://{LOOPBACK}:0"
    mapped = f"listener.security.protocol.map={PLAINTEXT}:PLAINTEXT,{CONTROLLER}:PLAINTEXT,OUTER:PLAINTEXT"
    own = "listener.name.plaintext.max.connections=10"
    async with running_broker(tmp_path, *TWO_SERVERS, mapped, "max.connections=2", own) as broker:
        quotas = broker.server.connections
        first, *others = await opened(broker, 3, PLAINTEXT)
        assert (quotas.is_protected(PLAINTEXT), served(broker, others)) == (False, 1)
        assert await alter_through(first, {"listeners": f"{one},OUTER://{LOOPBACK}:0"}) == (0, None)
        await settle()
        assert (quotas.is_protected(PLAINTEXT), served(broker, others)) == (True, 2)
        assert await alter_through(first, {"listeners": one}) == (0, None)
        await settle()
        assert not quotas.is_protected(PLAINTEXT)
        assert quotas.excess == 0, "and what was beyond the limit has been closed"


# A stop


async def test_a_stop_ends_the_waits_of_both_servers(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *TWO_SERVERS, "max.connections=1") as broker:
        clients = [*await opened(broker, 3, PLAINTEXT), *await opened(broker, 3, CONTROLLER)]
        assert served(broker, clients) == 2
        broker.clients.clear()
    # The two that were served are closed by `leave`.
    waited = [each for each in clients if each.stream.socket.fileno() >= 0]
    assert [await each.is_closed() for each in waited] == [True] * 4
    assert [each.gate.quotas.total for each in broker.server.socket_server.resources.values()] == [0, 0]
