"""A gateway's own summaries for the others."""

from pathlib import Path

import pytest

from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.sharing.client_summary import MAX_ADDRESSES, MAX_CLIENTS, MAX_HISTORIES, ClientSummary
from broker.gateway.sharing.own_summaries import OwnSummaries
from broker.gateway.sharing.summary import MAX_CHANNELS, MAX_USES
from broker.metadata.actor import BROKER_ITSELF
from broker.network.clock import TrioClock
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.quotas.accounts import MAX_ACCOUNTS
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Connection
from tests.support.connecting import connect_from
from tests.support.fake_upstream import fake_cluster
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.view_rows import usage_rows

LISTED = [
    "user",
    "client_id",
    "connections",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "requests_per_s",
    "request_percentage",
    "bytes_in",
    "bytes_out",
    "requests",
]


def own_of(gateway: RunningGateway) -> OwnSummaries:
    server = gateway.server
    connections = server.server_quotas.connections.values()
    return OwnSummaries("g1", server.socket_server, server.quotas, connections, server.clock, tuple, bool)


def throttle(quotas: ClientQuotas, number: int, throttle_bytes: int, now_ms: int) -> None:
    found = quotas.record_produce("ANONYMOUS", "greedy", throttle_bytes, now_ms)
    assert found is not None
    connection = Connection(id=f"connection {number}", client_id="greedy")
    quotas.throttle(connection, connection, found, now_ms)


async def test_connections_bytes_requests_and_the_address(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        own = own_of(gateway)
        before = run_through(own.summary())
        assert (before.gateway, before.address) == ("g1", gateway.started.bootstrap[0])
        assert (before.traffic.connections, before.traffic.bytes_in, before.channels) == (0, 0, ())
        for _ in range(2):
            client = await gateway.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        after = run_through(own.summary()).traffic
        assert (after.connections, after.throttled, after.requests) == (2, 0, 2)
        overview = gateway.server.views.overview().metrics
        assert (after.bytes_in, after.bytes_out) == (overview.bytes_in_total, overview.bytes_out_total)
        assert after.bytes_in > 0 and after.bytes_out > 0


async def test_the_longest_throttles_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        server = gateway.server
        rule = QuotaAlteration((("client-id", "greedy"),), (QuotaOp("producer_byte_rate", 1_000.0),))
        await server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        now_ms = server.clock.ms()
        count = MAX_CHANNELS + 2
        for number in range(count):
            throttle(server.quotas, number, 20_000 if not number else 100, now_ms)
        summary = run_through(own_of(gateway).summary())
        assert summary.traffic.throttled == count
        assert len(summary.channels) == MAX_CHANNELS
        waits = [row.remaining_ms for row in summary.channels]
        assert waits == sorted(waits, reverse=True)
        listed = {row.connection_id for row in summary.channels}
        assert f"connection {count - 1}" in listed and "connection 0" not in listed
        row = summary.channels[0]
        assert (row.quota_type, row.entity, row.bound) == (
            QuotaKind.PRODUCE,
            (("client-id", "greedy"),),
            1_000.0,
        )


async def test_the_most_used_limits_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        server = gateway.server
        rules = (
            QuotaAlteration((("client-id", None),), (QuotaOp("producer_byte_rate", 1_000_000.0),)),
            QuotaAlteration((("client-id", "small"),), (QuotaOp("producer_byte_rate", 10.0),)),
        )
        await server.control.apply(AlterClientQuotas(rules), BROKER_ITSELF)
        own, now_ms = own_of(gateway), server.clock.ms()
        assert run_through(own.summary()).uses == ()
        server.quotas.record_produce("ANONYMOUS", "small", 5, now_ms)
        for number in range(MAX_USES):
            server.quotas.record_produce("ANONYMOUS", f"client {number}", 100 + number, now_ms)
            found = run_through(own.summary())
            assert (len(found.uses), found.unlisted_uses) == (
                (number + 2, 0) if number < MAX_USES - 1 else (MAX_USES, 1)
            )
        # The largest part of its limit first.
        assert [use.clients[1] for use in found.uses[:2]] == ["small", f"client {MAX_USES - 1}"]
        assert found.uses[0].rule.pairs == (("client-id", "small"),)
        assert found.uses[1].rule.pairs == (("client-id", None),)
        assert "client 0" not in {use.clients[1] for use in found.uses}


async def test_rates_of_addresses_are_listed_with_their_rule(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        server = gateway.server
        rules = (
            QuotaAlteration((("ip", None),), (QuotaOp("connection_creation_rate", 100.0),)),
            QuotaAlteration((("ip", "10.0.0.7"),), (QuotaOp("connection_creation_rate", 10.0),)),
        )
        await server.control.apply(AlterClientQuotas(rules), BROKER_ITSELF)
        quotas = server.socket_server.gate.quotas
        (listener,) = quotas.listeners.values()
        for address in ("10.0.0.7", "10.0.0.8", "10.0.0.8"):
            assert connect_from(quotas, listener, address, server.clock.ms()) is None
        uses = run_through(own_of(gateway).summary()).uses
        assert [(use.clients, use.rule.pairs) for use in uses] == [
            (("10.0.0.7", None), (("ip", "10.0.0.7"),)),
            (("10.0.0.8", None), (("ip", None),)),
        ]
        assert uses[1].observed == pytest.approx(2 * uses[0].observed, rel=0.01)


def measure(gateway: RunningGateway) -> ClientSummary:
    return run_through(own_of(gateway).clients())


class Counted:
    """The counters of a connection."""

    authenticated = True
    requests = 1
    request_ns = 0

    def __init__(self, principal: str, client_id: str, bytes_in: int) -> None:
        self.principal = principal
        self.client_id = client_id
        self.bytes_in = bytes_in
        self.bytes_out = 0


def book(gateway: RunningGateway, *connections: Counted) -> None:
    """Count for the accounts what these connections have sent."""
    server = gateway.server
    server.socket_server.accounts.last.update(connections, server.clock.ms())


async def test_clients_and_addresses_are_those_of_the_console(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        assert measure(gateway) == ClientSummary("g1")
        for _ in range(2):
            client = await gateway.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        views = gateway.server.views
        (shown,) = usage_rows(views)  # this updates the accounts
        found = measure(gateway)
        (client_row,), (address,) = found.clients, found.addresses
        assert [getattr(client_row, name) for name in LISTED[:3]] == ["ANONYMOUS", shown.client_id, 2]
        for name in LISTED[6:]:
            assert getattr(client_row, name) == getattr(shown, name)
        assert client_row.history() == tuple(shown.history())
        assert (address.address, address.connections, address.accepted) == ("127.0.0.1", 2, 2)
        assert (address.gateway, found.unlisted_clients, found.unlisted_addresses) == ("", 0, 0)


async def test_the_busiest_clients_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        assert MAX_CLIENTS + 1 < MAX_ACCOUNTS
        first = range(MAX_CLIENTS - 2)
        book(gateway, *(Counted("alice", f"{number}", 1_000 * (number + 1)) for number in first))
        for number, unlisted in ((MAX_CLIENTS - 2, 0), (MAX_CLIENTS - 1, 0), (MAX_CLIENTS, 1)):
            book(gateway, Counted("alice", f"{number}", 10_000_000 * (number + 1)))
            found = measure(gateway)
            assert len(found.clients) == number + 1 - unlisted
            assert found.unlisted_clients == unlisted
            assert found.clients[0].client_id == f"{number}"
        assert "0" not in {row.client_id for row in found.clients}


async def test_the_busiest_clients_without_a_limit_have_a_history(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        rule = QuotaAlteration((("user", "bob"),), (QuotaOp("producer_byte_rate", 1e6),))
        await gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        limited = [Counted("bob", f"{number}", 1_000_000) for number in range(3)]
        free = [
            Counted("alice", f"{number:02}", 1_000 * (50 - number)) for number in range(MAX_HISTORIES + 1)
        ]
        book(gateway, *limited, *free)
        rows = measure(gateway).clients
        assert [row.user for row in rows] == ["bob"] * 3 + ["alice"] * (MAX_HISTORIES + 1)
        assert [bool(row.history()) for row in rows] == [False] * 3 + [True] * MAX_HISTORIES + [False]
        assert sum(step[0] for step in rows[3].history()) == 50_000


async def test_the_addresses_that_connected_last_are_listed_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        quotas = gateway.server.socket_server.gate.quotas
        now_ms = gateway.server.clock.ms()
        for number in range(MAX_ADDRESSES + 1):
            quotas.addresses.accepted(f"10.0.{number // 256}.{number % 256}", now_ms + number)
        monkeypatch.setattr(TrioClock, "ms", lambda _self: now_ms + MAX_ADDRESSES)
        found = measure(gateway)
        assert (len(found.addresses), found.unlisted_addresses) == (MAX_ADDRESSES, 1)
        assert [row.address for row in found.addresses[:2]] == ["10.0.1.244", "10.0.1.243"]
        assert "10.0.0.0" not in {row.address for row in found.addresses}
        assert all(row.rate > 0 and row.accepted == 1 for row in found.addresses)
