"""`connection.address.ipv6.prefix.length`: counting, log lines and metrics of a broker started with it."""

from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.network.acceptor import connection_gate
from broker.quotas.connections import BURST_MS, IP_RATE, PER_IP
from tests.support.connecting import connect_from
from tests.support.connections import settle
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import address_rows

ONE, OTHER, NETWORK = "2001:db8:1:2::7", "2001:db8:1:2::8", "2001:db8:1:2::"


async def limit(broker: RunningBroker, address: str, rate: float | None) -> ErrorCode:
    entry = QuotaAlteration((("ip", address),), (QuotaOp(IP_RATE, rate),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((entry,)), BROKER_ITSELF)
    return ErrorCode(outcome.error)


async def test_the_page_and_the_explanation_speak_of_the_network(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "connection.address.ipv6.prefix.length=64") as broker:
        gate = broker.server.socket_server.gate
        (account,) = gate.quotas.listeners.values()
        assert await limit(broker, ONE, 4) == ErrorCode.INVALID_REQUEST
        assert await limit(broker, NETWORK, 4) == ErrorCode.NONE
        for address in (ONE, OTHER):
            assert connect_from(gate.quotas, account, address, gate.clock.ms()) is None
        views = broker.server.views
        (row,) = (each for each in address_rows(views) if each.use is not None and ":" in each.use.address)
        assert (row.address, row.limit) == (NETWORK, 4)
        assert row.use is not None and (row.use.connections, row.use.accepted) == (2, 2)
        ((now, _),) = [
            pair for pair in run_through(views.quotas.resolve(None, None, OTHER)) if pair[0].key == IP_RATE
        ]
        assert now.matched == (("ip", NETWORK),)
        for address in (ONE, OTHER):
            gate.release(account.name, address)


async def test_a_flood_from_one_network_is_one_line(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running_broker(tmp_path, "connection.address.ipv6.prefix.length=64") as broker:
        gate = broker.server.socket_server.gate
        (account,) = gate.quotas.listeners.values()
        for number in range(5):
            gate.reject(account, f"2001:db8:1:2::{number}", PER_IP, 2)
        await settle()
        mock_clock.jump(BURST_MS / 1000)
        await settle()
    records = [each.getMessage() for each in caplog.records if each.name == connection_gate.__name__]
    assert records == [
        f"Rejected connection from {NETWORK}, address already has the configured maximum of 2 connections"
    ]
