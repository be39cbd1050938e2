"""A connection rate for the whole broker, set for the address 0.0.0.0: only in AutoMQ's mode."""

from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.quotas.connection_rates import ANY_ADDRESS
from tests.network.automq.frames import AUTOMQ
from tests.support.connections import gate_of, opened, served, set_ip_rate, two_listeners


@pytest.mark.parametrize(("mode", "throttled"), [(AUTOMQ, 1), ("socket.server.mode=kafka", 0)])
async def test_the_rate_of_0_0_0_0_binds_every_address_in_this_mode(
    tmp_path: Path, mock_clock: MockClock, mode: str, throttled: int
) -> None:
    async with two_listeners(tmp_path, mode) as broker:
        await set_ip_rate(broker, 5, ANY_ADDRESS)
        clients = await opened(broker, 6)
        assert (served(broker, clients), len(gate_of(broker).throttled_sockets)) == (6 - throttled, throttled)


async def test_a_default_for_addresses_is_none_for_the_broker(tmp_path: Path, mock_clock: MockClock) -> None:
    async with two_listeners(tmp_path, AUTOMQ) as broker:
        await set_ip_rate(broker, 1)
        await set_ip_rate(broker, 100, "127.0.0.1")
        clients = await opened(broker, 6)
        assert (served(broker, clients), len(gate_of(broker).throttled_sockets)) == (6, 0)
