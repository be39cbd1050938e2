"""Connection rates per address, over real connections and a mock clock: throttled sockets wait exactly, then
close or are checked again. (KIP-612)
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

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
    assert gate._quota.rejected == {IP_RATE: 2}


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
    assert gate_of(broker)._quota.rejected == {IP_RATE: 1}


async def test_a_throttled_connection_whose_client_has_left_is_not_counted(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with two_listeners(tmp_path, "ip.throttle.mode=kip") as broker:
        await set_ip_rate(broker, 5)
        clients = await opened(broker, 7)
        await clients[5].stream.aclose()
        await passes(mock_clock, 0.2)
        assert await is_served(clients[6]), "the place was still there"
        assert gate_of(broker)._quota.rejected == {}


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
        assert gate_of(broker)._quota.rejected == {rule: 1}
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
