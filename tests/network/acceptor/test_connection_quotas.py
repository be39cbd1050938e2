"""Connection quotas over real connections and a mock clock: waits, their exact length, and refusals.

The oracle is Kafka's SocketServerTest and DynamicConnectionQuotaTest; tests/quotas/test_connections.py tests
the quotas themselves.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.common.errors import ConfigError
from broker.metrics.families import render
from broker.monitoring.prometheus.sockets import acceptor_families
from broker.network.acceptor import connection_gate
from broker.quotas.connections import BURST_MS, PER_IP
from tests.support.connections import (
    EXTERNAL,
    LOOPBACK,
    PLAINTEXT,
    alter_from_inside,
    channel_of,
    gate_of,
    open_to,
    opened,
    passes,
    served,
    serves,
    set_ip_rate,
    settle,
    two_listeners,
)
from tests.support.hostile import is_closed_soon, is_served
from tests.support.live import alter, alter_through, takes_effect
from tests.support.running import RunningBroker, running_broker


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with two_listeners(tmp_path) as running:
        yield running


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == connection_gate.__name__]


# Connections of one address


@takes_effect("max.connections.per.ip", "max.connections.per.ip.overrides")
async def test_one_more_than_the_maximum_of_an_address_is_closed(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, max_connections_per_ip="5")
    await settle()
    clients = await opened(broker, 5)
    assert served(broker, clients) == 5
    sixth = await open_to(broker)
    assert await is_closed_soon(sixth)
    await clients[0].stream.aclose()
    await settle()
    assert await is_served((await opened(broker, 1))[0])

    await alter_from_inside(broker, max_connections_per_ip_overrides=f"{LOOPBACK}:6,10.0.0.1:1")
    assert await is_served((await opened(broker, 1))[0])
    assert await is_closed_soon(await open_to(broker))


@pytest.mark.parametrize("who", [LOOPBACK, "localhost"])
async def test_with_a_maximum_of_0_only_the_overrides_get_in(
    tmp_path: Path, mock_clock: MockClock, who: str
) -> None:
    async with two_listeners(
        tmp_path, "max.connections.per.ip=0", f"max.connections.per.ip.overrides={who}:5"
    ) as broker:
        clients = await opened(broker, 5)
        assert served(broker, clients) == 5
        assert await is_closed_soon(await open_to(broker))
        await clients[0].stream.aclose()
        await settle()
        assert await is_served(await open_to(broker))


async def test_a_host_without_an_address_is_reported_and_the_others_hold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = f"max.connections.per.ip.overrides=no-such-host.invalid:9,{LOOPBACK}:1"
    async with two_listeners(tmp_path, overrides) as broker:
        assert await is_served(await open_to(broker))
        assert await is_closed_soon(await open_to(broker))
    assert any(getattr(each, "host", None) == "no-such-host.invalid" for each in caplog.records)


async def test_a_burst_of_refusals_is_one_line_with_address_rule_and_count(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with two_listeners(tmp_path, "max.connections.per.ip=1") as broker:
        await opened(broker, 10)
        assert warnings(caplog) == []
        await passes(mock_clock, BURST_MS / 1_000)
        (line,) = [each for each in caplog.records if each.name == connection_gate.__name__]
        assert line.getMessage() == (
            "Rejected connection from 127.0.0.1, address already has the configured maximum of 1 connections"
        )
        assert (line.__dict__["rule"], line.__dict__["connections"]) == (PER_IP, 9)
        assert line.__dict__["listener"] == EXTERNAL
        await opened(broker, 2)
        await passes(mock_clock, 10)
        assert len(warnings(caplog)) == 2
        assert gate_of(broker).quota.rejected == {PER_IP: 11}


# Slots


@takes_effect("max.connections")
async def test_the_acceptor_waits_for_a_slot_until_one_is_free(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, max_connections="2")
    first, second, third = await opened(broker, 3)
    assert served(broker, [first, second, third]) == 2
    await passes(mock_clock, 100)
    assert channel_of(broker, third) is None, "as long as it takes"
    assert await is_served(second), "who is there is served meanwhile"
    await first.stream.aclose()
    await settle()
    assert await is_served(third)
    assert gate_of(broker).blocked.total_ns() == 100 * 10**9
    assert gate_of(broker).blocked.share() == 1.0


async def test_a_raised_limit_lets_the_waiting_in_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, max_connections="1")
    first, *others = await opened(broker, 4)
    assert served(broker, others) == 0
    await alter_from_inside(broker, max_connections="3")
    await serves(broker, [first, *others], 3)


async def test_a_listener_has_a_maximum_of_its_own_the_protected_one_too(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    limits = [f"listener.name.{name.lower()}.max.connections=2" for name in (PLAINTEXT, EXTERNAL)]
    async with two_listeners(tmp_path, "max.connections=100", *limits) as broker:
        for name in (PLAINTEXT, EXTERNAL):
            first, second, third = await opened(broker, 3, name)
            assert served(broker, [first, second, third]) == 2
            await second.stream.aclose()
            await settle()
            assert await is_served(third)
            await first.stream.aclose()


async def test_the_protected_listener_goes_on_and_the_least_recently_used_elsewhere_are_closed(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    own = "listener.name.plaintext.max.connections=7"
    async with two_listeners(tmp_path, "max.connections=10", own) as broker:
        inner = await opened(broker, 5, PLAINTEXT)
        outer = []
        for _ in range(5):
            await passes(mock_clock, 1)
            outer += await opened(broker, 1)
        await passes(mock_clock, 1)
        assert await is_served(outer[0]), "the oldest is used again"
        assert served(broker, inner + outer) == 10
        inner += await opened(broker, 2, PLAINTEXT)
        assert served(broker, inner) == 7
        assert [channel_of(broker, each) is not None for each in outer] == [True, False, False, True, True]
        assert await is_closed_soon(outer[1]) and await is_closed_soon(outer[2])
        assert broker.server.connections.total == 10


async def test_a_lowered_limit_closes_the_least_recently_used_one_a_turn_but_none_that_is_protected(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    inner = await opened(broker, 3, PLAINTEXT)
    outer = await opened(broker, 4)
    await passes(mock_clock, 1)
    assert await is_served(outer[1])
    await passes(mock_clock, 1)
    assert await is_served(inner[0])
    await alter_from_inside(broker, max_connections="4")
    await settle()
    assert served(broker, inner) == 3
    assert [channel_of(broker, each) is not None for each in outer] == [False, True, False, False]
    await alter_from_inside(broker, max_connections="1")
    await settle()
    assert (served(broker, inner), served(broker, outer)) == (3, 0)
    assert await is_served(inner[0])


async def test_connections_that_are_too_many_before_a_processor_has_them_are_closed_soon_after(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_listeners(tmp_path) as broker:
        quota = broker.server.connections.listeners[EXTERNAL]
        assert broker.server.connections.enter(quota, "10.0.0.1", 0) is None, "on its way to a processor"
        (client,) = await opened(broker, 1, PLAINTEXT)
        await alter_from_inside(broker, max_connections="1")
        late = await open_to(broker, PLAINTEXT)
        await settle()
        assert await is_served(client)
        broker.server.socket_server.gate.release(EXTERNAL, "10.0.0.1")
        await passes(mock_clock, 0.3)
        assert broker.server.connections.excess == 0
        assert served(broker, [client, late]) == 1


# Rates of broker and listener


@takes_effect("max.connection.creation.rate")
async def test_accepting_waits_for_the_rate_to_the_millisecond_and_is_distinguished_by_listener(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """5 a second over two windows: the sixth at once is 6, a fifth too many, which 200 ms repay."""
    await alter(broker, max_connection_creation_rate="5")
    await passes(mock_clock, 10)
    clients = await opened(broker, 6)
    assert served(broker, clients) == 5
    await passes(mock_clock, 0.199)
    assert served(broker, clients) == 5
    await passes(mock_clock, 0.001)
    assert served(broker, clients) == 6
    assert gate_of(broker).blocked.total_ns() == 200_000_000
    assert gate_of(broker, PLAINTEXT).blocked.total_ns() == 0


async def test_a_raised_rate_does_not_shorten_a_wait_that_is_on(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, max_connection_creation_rate="1")
    await passes(mock_clock, 10)
    clients = await opened(broker, 2)
    await alter_from_inside(broker, max_connection_creation_rate="1000")
    await passes(mock_clock, 0.999)
    assert served(broker, clients) == 1
    await passes(mock_clock, 0.001)
    assert served(broker, clients) == 2


async def test_the_protected_listener_is_bound_by_its_own_rate_and_not_by_the_brokers(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    own = "listener.name.plaintext.max.connection.creation.rate=10"
    async with two_listeners(tmp_path, "max.connection.creation.rate=5", own) as broker:
        clients = await opened(broker, 11, PLAINTEXT)
        assert served(broker, clients) == 10
        outer = await opened(broker, 6)
        assert served(broker, outer) == 5, "and takes nothing from the others' rate"
        await passes(mock_clock, 0.1)
        assert served(broker, clients) == 11


async def test_a_stop_ends_every_wait(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_listeners(tmp_path, "max.connections=1") as broker:
        clients = await opened(broker, 3)
        assert served(broker, clients) == 1
        broker.clients.clear()  # they stay, and see how it ends; `leave` closes the one that was served
    waited = [each for each in clients if each.stream.socket.fileno() >= 0]
    assert [await each.is_closed() for each in waited] == [True] * 2
    assert broker.server.connections.total == 0


# Listeners that come and go


async def test_a_removed_listener_releases_waiting_throttled_and_served_connections(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    only = f"{PLAINTEXT}://{LOOPBACK}:0"
    async with two_listeners(tmp_path, "listener.name.external.max.connections=2") as broker:
        account = broker.server.connections
        (operator,) = await opened(broker, 1, PLAINTEXT)
        await set_ip_rate(broker, 1)
        first, throttled = await opened(broker, 2)
        assert (account.total, len(gate_of(broker).throttled_sockets)) == (2, 1)
        await set_ip_rate(broker, None)
        second, *waiting = await opened(broker, 3)
        assert (served(broker, [first, second]), served(broker, waiting)) == (2, 0)

        assert await alter_through(operator, {"listeners": only}) == (0, None)
        await settle()
        for client in (first, second, throttled, *waiting):
            assert await client.is_closed()
        await passes(mock_clock, 10)
        assert (list(account.listeners), account.total) == ([PLAINTEXT], 1)
        assert account.counts == {LOOPBACK: 1}

        both = f"{only},{EXTERNAL}://{LOOPBACK}:0"
        assert await alter_through(operator, {"listeners": both}) == (0, None)
        await settle()
        clients = await opened(broker, 3)
        assert served(broker, clients) == 2, "its limit is there again"
        assert await is_served(clients[0])


async def test_the_last_listener_is_bound_until_another_one_makes_it_the_protected_one(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    only = f"{PLAINTEXT}://{LOOPBACK}:0"
    async with running_broker(
        tmp_path,
        f"listeners={only}",
        f"listener.security.protocol.map={PLAINTEXT}:PLAINTEXT,{EXTERNAL}:PLAINTEXT",
        f"inter.broker.listener.name={PLAINTEXT}",
        "max.connections=1",
        "listener.name.plaintext.max.connections=3",
    ) as broker:
        first, second = await opened(broker, 2, PLAINTEXT)
        assert served(broker, [first, second]) == 1
        both = f"{only},{EXTERNAL}://{LOOPBACK}:0"
        assert await alter_through(first, {"listeners": both}) == (0, None)
        await settle()
        assert await is_served(second)


async def test_a_listener_whose_port_is_taken_has_no_account(tmp_path: Path) -> None:
    """Another listener is what makes one of them protected."""
    async with two_listeners(tmp_path) as broker:
        server = broker.server.socket_server
        bound = server.listeners[0]
        third = replace(bound.endpoint, name="THIRD", port=bound.acceptor.address[1])
        with pytest.raises(ConfigError, match="cannot be bound: Address already in use"):
            server._factory.listener(third)
        assert list(broker.server.connections.listeners) == [PLAINTEXT, EXTERNAL]


# What an operator sees


async def test_the_metrics_have_kafkas_names(broker: RunningBroker, mock_clock: MockClock) -> None:
    server = broker.server
    await set_ip_rate(broker, 5)
    await opened(broker, 7)
    await opened(broker, 2, PLAINTEXT)
    page = render(acceptor_families(server.socket_server, server.clock.ms())).decode()
    group = "kafka_server_socket_server_metrics"
    for line in (
        f"{group}_broker_connection_accept_rate 5",
        f'{group}_connection_accept_rate{{listener="EXTERNAL"}} 5',
        f'{group}_connection_accept_rate{{listener="PLAINTEXT"}} 0',
        f'{group}_connection_accept_rate{{ip="127.0.0.1"}} 5',
        f'{group}_ip_connection_accept_throttle_time{{listener="EXTERNAL"}} 200',
        'kafka_network_acceptor_acceptorblockedpercent{listener="EXTERNAL"} 0',
        'kafka_network_acceptor_throttled_sockets{listener="EXTERNAL"} 2',
    ):
        assert any(each == line or each == f"{line}.0" for each in page.splitlines()), line
