"""Connection rates per address, over real connections and a mock clock: throttled sockets wait exactly, then
close or are checked again. (KIP-612)
"""

import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.network.acceptor.connection_gate import ListenerGate
from broker.network.processor import Accepted
from broker.quotas.connections import IP_RATE, PER_IP, SLOTS
from tests.support.connections import (
    LOOPBACK,
    alter_from_inside,
    gate_of,
    opened,
    passes,
    served,
    set_ip_rate,
    two_listeners,
)
from tests.support.hostile import is_closed_soon, is_served
from tests.support.live import alter, takes_effect
from tests.support.running import RunningBroker


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with two_listeners(tmp_path, "ip.throttle.mode=kafka") as running:
        yield running


async def test_an_address_over_its_rate_is_throttled_and_closed_after_the_delay(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await set_ip_rate(broker, 5)
    gate = gate_of(broker)
    clients = await opened(broker, 6)
    assert (served(broker, clients), len(gate.throttled_sockets)) == (5, 1)
    clients += await opened(broker, 1)
    assert (served(broker, clients), len(gate.throttled_sockets)) == (5, 2)
    assert gate.blocked.total_ns() == 0, "an address never holds up accepting"
    await passes(mock_clock, 0.199)
    assert len(gate.throttled_sockets) == 2
    await passes(mock_clock, 0.001)
    assert len(gate.throttled_sockets) == 0
    assert [await is_closed_soon(each) for each in clients[5:]] == [True, True]
    await passes(mock_clock, 2)
    assert await is_served((await opened(broker, 1))[0])
    assert gate.quota.rejected == {IP_RATE: 2}


async def test_a_stop_closes_throttled_connections(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_listeners(tmp_path) as broker:
        await set_ip_rate(broker, 5)
        clients = await opened(broker, 6)
        assert len(gate_of(broker).throttled_sockets) == 1
        broker.clients.clear()
    assert await clients[5].is_closed()


@takes_effect("ip.throttle.mode")
async def test_as_kip_612_says_throttled_connections_are_checked_again_served_or_closed(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """After 200 ms the sixth makes 6 in 1.2 s, which is 5 a second; the seventh would be one too many."""
    await alter(broker, ip_throttle_mode="kip")
    await passes(mock_clock, 10)
    await is_looked_at_again(broker, mock_clock)


async def test_by_default_throttled_connections_are_checked_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_listeners(tmp_path) as broker:
        await is_looked_at_again(broker, mock_clock)


async def is_looked_at_again(broker: RunningBroker, mock_clock: MockClock) -> None:
    await set_ip_rate(broker, 5)
    clients = await opened(broker, 7)
    assert (served(broker, clients), len(gate_of(broker).throttled_sockets)) == (5, 2)
    await passes(mock_clock, 0.199)
    assert len(gate_of(broker).throttled_sockets) == 2
    await passes(mock_clock, 0.001)
    assert await is_served(clients[5])
    assert await is_closed_soon(clients[6])
    assert broker.server.connections.total == 6
    assert gate_of(broker).quota.rejected == {IP_RATE: 1}


async def test_a_throttled_connection_whose_client_has_left_is_not_counted(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_listeners(tmp_path, "ip.throttle.mode=kip") as broker:
        await set_ip_rate(broker, 5)
        clients = await opened(broker, 7)
        await clients[5].stream.aclose()
        await passes(mock_clock, 0.2)
        assert await is_served(clients[6]), "the place was still there"
        assert gate_of(broker).quota.rejected == {}


@pytest.mark.parametrize("rule", [SLOTS, PER_IP])
async def test_a_throttled_connection_that_finds_no_place_is_closed(
    tmp_path: Path, mock_clock: MockClock, rule: str
) -> None:
    async with two_listeners(tmp_path, "ip.throttle.mode=kip") as broker:
        await set_ip_rate(broker, 4)
        clients = await opened(broker, 5)
        await alter_from_inside(broker, **{rule.replace(".", "_"): "4"})
        await passes(mock_clock, 0.25)
        assert await is_closed_soon(clients[4])
        assert gate_of(broker).quota.rejected == {rule: 1}
        assert broker.server.connections.total == served(broker, clients) == 4


async def test_the_rate_of_an_address_is_set_changed_and_removed_live(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """ConnectionQuotasTest's IP quotas through AlterClientQuotas: the default, an override, then neither."""
    gate = gate_of(broker)

    async def kept_of(count: int) -> int:
        clients = await opened(broker, count)
        found = served(broker, clients)
        for each in clients:
            await each.stream.aclose()
        await passes(mock_clock, 5)
        return found

    await set_ip_rate(broker, 3)
    assert await kept_of(6) == 3
    await set_ip_rate(broker, 5, LOOPBACK)
    assert await kept_of(6) == 5
    await set_ip_rate(broker, None, LOOPBACK)
    assert await kept_of(6) == 3
    await set_ip_rate(broker, None)
    assert await kept_of(6) == 6
    assert len(gate.throttled_sockets) == 0


async def test_a_rate_that_was_set_before_the_start_holds(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_listeners(tmp_path) as broker:
        await set_ip_rate(broker, 2)
    async with two_listeners(tmp_path) as broker:
        assert served(broker, await opened(broker, 4)) == 2


@takes_effect("max.throttled.connections")
@pytest.mark.parametrize(("most", "delayed"), [(0, 0), (4, 4), (5, 5), (6, 5)])
async def test_one_more_than_may_be_throttled_closes_the_earliest(
    broker: RunningBroker, mock_clock: MockClock, most: int, delayed: int
) -> None:
    await alter(broker, max_throttled_connections=str(most))
    await passes(mock_clock, 10)
    await set_ip_rate(broker, 1)
    gate = gate_of(broker)
    clients = await opened(broker, 6)
    assert (served(broker, clients), len(gate.throttled_sockets)) == (1, delayed)
    early = clients[1 : 6 - delayed]
    assert [await is_closed_soon(each) for each in early] == [True] * len(early)


@pytest.mark.parametrize(("mode", "kept"), [("kafka", 5), ("automq", 3)])
async def test_z19_the_rate_of_0_0_0_0_is_the_whole_brokers_in_automqs_mode_alone(
    tmp_path: Path, mock_clock: MockClock, mode: str, kept: int
) -> None:
    async with two_listeners(tmp_path, f"socket.server.mode={mode}") as broker:
        await set_ip_rate(broker, 5)
        await set_ip_rate(broker, 3, "0.0.0.0")
        assert served(broker, await opened(broker, 6)) == kept


async def test_z19_in_automqs_mode_the_default_is_each_addresss_and_not_the_whole_brokers(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_listeners(tmp_path, "socket.server.mode=automq") as broker:
        await set_ip_rate(broker, 2)
        await set_ip_rate(broker, 9, LOOPBACK)
        assert served(broker, await opened(broker, 6)) == 6


async def test_an_address_that_was_idle_for_an_hour_is_no_longer_shown(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await set_ip_rate(broker, 5)
    await opened(broker, 1)
    sensors = broker.server.connections.ips.sensors
    await passes(mock_clock, 3_600)
    assert list(sensors) == [LOOPBACK]
    await passes(mock_clock, 30)
    assert list(sensors) == []


# One address that hammers, and the others


HAMMER, OTHER = "10.0.0.7", "10.0.0.8"


class Arrivals:
    """Connections that an acceptor takes one after the other, as from its backlog."""

    def __init__(self, gate: ListenerGate) -> None:
        self._gate = gate
        self._peers: list[socket.socket] = []
        self.admitted: Counter[str] = Counter()
        self.delays_ms: Counter[int] = Counter()
        """How often a connection of OTHER was admitted so many milliseconds after it arrived."""

    async def take(self, address: str, arrived: float) -> None:
        ours, theirs = socket.socketpair()
        self._peers.append(theirs)
        if await self._gate.admits(Accepted(ours, (address, len(self._peers)))):
            self.admitted[address] += 1
            ours.close()
            if address == OTHER:
                self.delays_ms[round((trio.current_time() - arrived) * 1_000)] += 1

    def close(self) -> None:
        for each in self._peers:
            each.close()


@pytest.mark.parametrize("mode", ["kip", "kafka"])
@pytest.mark.parametrize("rule", [IP_RATE, PER_IP])
async def test_an_address_over_its_limit_that_hammers_makes_no_other_wait(
    tmp_path: Path, autojump_clock: MockClock, mode: str, rule: str
) -> None:
    """1,000 connections in a second from an address that may make 10, or have 3, on a listener and a broker
    that take 20 a second; another address makes one each 100 ms.
    """
    limits = (
        f"ip.throttle.mode={mode}",
        "max.throttled.connections=100",
        "max.connection.creation.rate=20",
        "listener.name.external.max.connection.creation.rate=20",
    )
    async with two_listeners(tmp_path, *limits) as broker:
        if rule == IP_RATE:
            await set_ip_rate(broker, 10, HAMMER)
        else:
            broker.server.connections.set_per_ip_overrides({HAMMER: 3})
        gate = gate_of(broker)
        arrivals = Arrivals(gate)
        began = trio.current_time()
        for millisecond in range(1_000):
            arrived = began + millisecond / 1_000
            await trio.sleep_until(arrived)
            await arrivals.take(HAMMER, arrived)
            if millisecond % 100 == 50:
                await arrivals.take(OTHER, arrived)
        assert arrivals.delays_ms == {0: 10}
        assert arrivals.admitted[HAMMER] == 3 if rule == PER_IP else arrivals.admitted[HAMMER] < 20
        assert gate.blocked.total_ns() == 0
        arrivals.close()


async def test_beside_an_address_at_its_limit_another_waits_for_the_listeners_rate_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """1,000 connections at once from an address that may make 10 a second, on a listener that takes 20: the
    other address has the rest of the listener's rate at once, and its eleventh connection waits 1/20 s.
    """
    own = "listener.name.external.max.connection.creation.rate=20"
    async with two_listeners(tmp_path, "ip.throttle.mode=kafka", own) as broker:
        await set_ip_rate(broker, 10, HAMMER)
        arrivals = Arrivals(gate_of(broker))
        arrived = trio.current_time()
        for address, count in ((HAMMER, 500), (OTHER, 10), (HAMMER, 500)):
            for _ in range(count):
                await arrivals.take(address, arrived)
        assert arrivals.admitted == {HAMMER: 10, OTHER: 10} and trio.current_time() == arrived
        await arrivals.take(OTHER, arrived)
        assert arrivals.delays_ms == {0: 10, 50: 1}
        arrivals.close()


async def test_a_connection_that_was_throttled_waits_for_the_listeners_rate_as_any_other(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The listener takes 5 a second. Two wait 200 ms for their address's rate, which is removed meanwhile.
    Then the first makes six in 1.2 s, the listener's rate; the second waits 200 ms for it, but no acceptor.
    """
    own = "listener.name.external.max.connection.creation.rate=5"
    async with two_listeners(tmp_path, own) as broker:
        await set_ip_rate(broker, 5)
        clients = await opened(broker, 7)
        gate = gate_of(broker)
        assert (served(broker, clients), len(gate.throttled_sockets)) == (5, 2)
        await set_ip_rate(broker, None)
        await passes(mock_clock, 0.2)
        assert (served(broker, clients), len(gate.throttled_sockets)) == (6, 0)
        await passes(mock_clock, 0.199)
        assert served(broker, clients) == 6
        await passes(mock_clock, 0.001)
        assert served(broker, clients) == 7
        assert gate.blocked.total_ns() == 0
