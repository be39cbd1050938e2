"""Connection limits per user, over real connections and a mock clock: admission, delays, refusals, and no
counts left after all connections close.

tests/quotas/test_user_connections.py tests the counts themselves. Rates use two windows of a second.
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.config.kinds import INT_MAX
from broker.config.sections import ConnectionConfig
from broker.network.acceptor import connection_gate
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.quotas.connections import BURST_MS, PER_USER, USER_RATE
from tests.support.certificates import certificates, tls_settings
from tests.support.connections import passes, settle
from tests.support.hostile import is_closed_soon, is_served, until
from tests.support.live import alter_through, takes_effect
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'user_alice="secret" user_bob="secret"'
SASL = (
    "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    f"listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} {USERS};",
    "quota.window.num=2",
)
TOO_MANY = "User alice already has the configured maximum of 2 connections"
TOO_FAST = "User alice makes more than the configured maximum of 2 connections per second"


@pytest.fixture(params=["kafka", "automq"])
async def broker(
    request: pytest.FixtureRequest, tmp_path: Path, mock_clock: MockClock
) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *SASL, f"socket.server.mode={request.param}") as running:
        yield running
        await everybody_leaves(running, mock_clock)


async def everybody_leaves(broker: RunningBroker, clock: MockClock) -> None:
    for client in broker.clients:
        await trio.aclose_forcefully(client.stream)
    await passes(clock, 1)  # refused ones are kept a little, and held ones looked at again
    assert counts(broker) == {}
    assert broker.server.socket_server.users.delayed == 0


def counts(broker: RunningBroker) -> dict[str, int]:
    return broker.server.connections.users.counts


def port_of(broker: RunningBroker, listener: str) -> int:
    (port,) = (
        each.acceptor.address[1] for each in broker.server.socket_server.listeners if each.name == listener
    )
    return port


async def limit(broker: RunningBroker, **settings: str | None) -> None:
    client = await connect(port_of(broker, "PLAINTEXT"))
    keys = {key.replace("_", "."): text for key, text in settings.items()}
    assert await alter_through(client, keys) == (0, None)
    await client.stream.aclose()


async def begin(broker: RunningBroker, user: str = "alice", password: str = "secret") -> WireClient:
    """Connect and send the login, which may be unanswered."""
    client = await connect(port_of(broker, "SASL_PLAINTEXT"))
    broker.clients.append(client)
    await client.ask(SaslHandshakeRequest("PLAIN"), 1)
    await client.send(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)
    await settle()
    return client


async def answer(client: WireClient) -> tuple[int, str | None]:
    _, response = await client.receive(36, 2)
    return response.error_code, response.error_message or None


async def log_in(
    broker: RunningBroker, user: str = "alice", password: str = "secret"
) -> tuple[WireClient, str | None]:
    """Return a connection and the reason of its refusal, or None."""
    client = await begin(broker, user, password)
    code, message = await answer(client)
    assert code == (ErrorCode.NONE if message is None else ErrorCode.SASL_AUTHENTICATION_FAILED)
    return client, message


def is_held(client: WireClient) -> bool:
    try:
        return not client.stream.socket._sock.recv(1, 2)
    except BlockingIOError:
        return True


@takes_effect("max.connections.per.user", "max.connections.per.user.overrides")
async def test_one_more_than_the_maximum_is_refused_and_closed(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, max_connections_per_user="2")
    clients = []
    for refusal in (None, None, TOO_MANY, TOO_MANY):
        client, response = await log_in(broker)
        assert response == refusal
        clients.append(client)
    assert counts(broker) == {"alice": 2}
    assert await is_served(clients[1])
    await passes(mock_clock, 0.1)
    assert await is_closed_soon(clients[2])
    assert (await log_in(broker, "bob"))[1] is None

    await clients[0].stream.aclose()
    await settle()
    assert counts(broker) == {"alice": 1, "bob": 1}
    assert (await log_in(broker))[1] is None

    await limit(broker, max_connections_per_user_overrides="alice:3,bob:1")
    assert [(await log_in(broker))[1] is None for _ in range(2)] == [True, False]
    assert (await log_in(broker, "bob"))[1] is not None
    assert counts(broker) == {"alice": 3, "bob": 1}
    await limit(broker, max_connections_per_user_overrides=None, max_connections_per_user=None)
    assert (await log_in(broker))[1] is None


async def test_a_wrong_password_and_a_second_login_are_not_counted(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, max_connections_per_user="2")
    for _ in range(3):
        assert (await log_in(broker, password="wrong"))[1] == (
            "Authentication failed: Invalid username or password"
        )
    client, _ = await log_in(broker)
    again = await client.ask(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
    assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert counts(broker) == {"alice": 1}


async def test_a_client_without_a_name_is_not_counted(broker: RunningBroker, mock_clock: MockClock) -> None:
    await limit(broker, max_connections_per_user="0")
    client = await connect(port_of(broker, "PLAINTEXT"))
    broker.clients.append(client)
    assert await is_served(client)
    assert counts(broker) == {}


async def test_a_login_of_a_connection_that_has_gone_is_not_counted(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(5):
        client = await connect(port_of(broker, "SASL_PLAINTEXT"))
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        await client.send(SaslAuthenticateRequest(b"\0alice\0secret"), 2)
        await client.stream.aclose()
    await settle()
    assert counts(broker) == {}


async def test_a_listener_that_is_removed_takes_its_connections_with_it(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(3):
        await log_in(broker)
    assert counts(broker) == {"alice": 3}
    await limit(broker, listeners=f"PLAINTEXT://127.0.0.1:{port_of(broker, 'PLAINTEXT')}")
    await settle()
    assert counts(broker) == {}


@takes_effect("max.connection.creation.rate.per.user", "max.connection.creation.rate.per.user.overrides")
async def test_a_client_that_comes_too_fast_is_held_and_served_when_its_rate_is_down(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Two at once are two a second; a third waits half a second."""
    await limit(broker, max_connection_creation_rate_per_user="2")
    for _ in range(2):
        assert (await log_in(broker))[1] is None
    third = await begin(broker)
    await third.send(MetadataRequest([]), 9)
    assert (await log_in(broker, "bob"))[1] is None
    await passes(mock_clock, 0.499)
    assert is_held(third)
    assert counts(broker) == {"alice": 2, "bob": 1}
    await passes(mock_clock, 0.001)
    assert await answer(third) == (0, None)
    await third.receive(3, 9)
    assert counts(broker) == {"alice": 3, "bob": 1}

    await limit(broker, max_connection_creation_rate_per_user_overrides="alice:100")
    for _ in range(10):
        assert (await log_in(broker))[1] is None


@pytest.mark.parametrize(("most", "delayed"), [(17, 17), (18, 18), (19, 18)])
async def test_one_more_login_than_may_be_throttled_is_refused_at_once(
    broker: RunningBroker, mock_clock: MockClock, most: int, delayed: int
) -> None:
    await limit(broker, max_connection_creation_rate_per_user="2", max_throttled_connections=str(most))
    storm = [await begin(broker) for _ in range(20)]
    assert counts(broker) == {"alice": 2}
    assert broker.server.socket_server.users.delayed == delayed
    refused = [each for each in storm if not is_held(each)][2:]
    assert [await answer(each) for each in refused] == [(58, TOO_FAST)] * (18 - delayed)


async def test_a_client_that_is_too_fast_a_second_time_is_refused_and_closed(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, max_connection_creation_rate_per_user="2")
    storm = [await begin(broker) for _ in range(20)]
    assert counts(broker) == {"alice": 2}
    assert broker.server.socket_server.users.delayed == 18
    await passes(mock_clock, 0.5)
    answers = [await answer(each) for each in storm]
    # AutoMQ's handlers choose by themselves which of those that waited is the first.
    refused = [client for client, (code, _) in zip(storm, answers, strict=True) if code]
    assert len(storm) - len(refused) == 3
    assert {message for code, message in answers if code} == {TOO_FAST}
    assert counts(broker) == {"alice": 3}
    assert broker.server.socket_server.users.delayed == 0
    await passes(mock_clock, 0.1)
    for client in refused:
        assert await is_closed_soon(client)


async def test_a_client_that_leaves_while_it_is_held_is_not_counted(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, max_connection_creation_rate_per_user="2")
    clients = [await begin(broker) for _ in range(5)]
    for client in clients[2:]:
        await trio.aclose_forcefully(client.stream)
    await settle()
    await passes(mock_clock, 0.5)
    assert counts(broker) == {"alice": 2}
    assert broker.server.socket_server.users.delayed == 0


async def test_refusals_are_one_line_and_figures(
    broker: RunningBroker, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await limit(
        broker,
        max_connections_per_user="2",
        max_connections_per_user_overrides="bob:9",
        max_connection_creation_rate_per_user_overrides="bob:1",
    )
    for _ in range(5):
        await log_in(broker)
    for _ in range(3):
        await begin(broker, "bob")
    users = broker.server.socket_server.users
    await until(lambda: users.delayed == 2)
    await passes(mock_clock, BURST_MS / 1_000)
    await until(lambda: users.delayed == 0)
    await passes(mock_clock, BURST_MS / 1_000)
    records = {
        each.getMessage(): each.__dict__["connections"]
        for each in caplog.records
        if each.name == connection_gate.__name__
    }
    assert records == {
        "Rejected connection from user alice, which already has the configured maximum of 2 connections": 3,
        "Rejected connection from user bob, which makes more than the configured maximum of 1 connections "
        "per second": 1,
    }, "of the two that waited one had its turn"
    page = parse(broker.server.prometheus.page())
    group = "kafka_server_socket_server_metrics"
    rejected = page[f"{group}_rejected_connections_total"]
    assert rejected.value(listener="SASL_PLAINTEXT", rule=PER_USER) == 3
    assert rejected.value(listener="SASL_PLAINTEXT", rule=USER_RATE) == 1
    assert page[f"{group}_user_connections"].value(user="alice") == 2
    assert page[f"{group}_user_connection_creation_rate"].value(user="bob") == 1


# Mutual TLS


@pytest.fixture
async def tls(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(
        tmp_path, *tls_settings(client_auth="requested"), "quota.window.num=2"
    ) as running:
        yield running
        await everybody_leaves(running, mock_clock)


def limit_from_inside(broker: RunningBroker, count: int = INT_MAX, rate: int = INT_MAX) -> None:
    config = ConnectionConfig(max_connections_per_user=count, max_creation_rate_per_user=rate)
    broker.server.socket_server.gate.configure(config)


async def alice(broker: RunningBroker) -> WireClient:
    known = certificates()
    client = await broker.connect_tls(known.client_context(known.alice))
    await settle()
    return client


async def test_a_certificate_counts_for_its_subject_and_one_too_many_is_closed(
    tls: RunningBroker, mock_clock: MockClock
) -> None:
    limit_from_inside(tls, count=2)
    clients = [await alice(tls) for _ in range(3)]
    assert [await is_served(each) for each in clients[:2]] == [True, True]
    assert await clients[2].is_closed()
    (name,) = counts(tls)
    assert name.startswith("CN=alice") and counts(tls)[name] == 2
    unnamed = await tls.connect_tls(certificates().client_context())
    assert await is_served(unnamed)
    await trio.aclose_forcefully(clients[0].stream)
    await settle()
    assert await is_served(await alice(tls))


async def test_a_certificate_that_comes_too_fast_is_held_and_looked_at_again(
    tls: RunningBroker, mock_clock: MockClock
) -> None:
    limit_from_inside(tls, rate=2)
    clients = [await alice(tls) for _ in range(8)]
    for each in clients:
        await each.send(MetadataRequest([]), 9)
    await settle()
    assert sum(counts(tls).values()) == 2
    assert tls.server.socket_server.users.delayed == 6
    await passes(mock_clock, 0.499)
    assert sum(counts(tls).values()) == 2
    await passes(mock_clock, 0.001)
    let_in = sum(counts(tls).values())
    assert let_in == 3
    assert tls.server.socket_server.users.delayed == 0
    for each in clients[:3]:
        await each.receive(3, 9)
    assert await clients[-1].is_closed()


async def test_a_certificate_that_leaves_while_it_is_held_is_not_counted(
    tls: RunningBroker, mock_clock: MockClock
) -> None:
    limit_from_inside(tls, rate=2)
    clients = [await alice(tls) for _ in range(4)]
    for each in clients[2:]:
        await trio.aclose_forcefully(each.stream)
    await passes(mock_clock, 0.5)
    assert sum(counts(tls).values()) <= 3
