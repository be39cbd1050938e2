"""Two gateways that share limits: what the console of one shows of both."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.server import gateway as gateway_server
from broker.views.connection_search import ConnectionQuery, RemoteConnections
from broker.views.console import Views
from tests.quotas.scene import Connection
from tests.support.machine_speed import WITHIN_S
from tests.support.prometheus import parse
from tests.support.running import running_broker
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.view_rows import address_rows, connection_rows, quota_rows, usage_rows

SCOPE = "quota.scope=cluster"
CONSOLE = "console.listener=127.0.0.1:0"

WINDOW_S = 60
"""Of the quotas: what is counted at one gateway still counts when the other one tells its use."""

LONG_WINDOWS = f"quota.window.size.seconds={WINDOW_S}"
GREEDY = (("client-id", "greedy"),)


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    # The upstream broker of these tests is Weir, whose own topics no client may write.
    monkeypatch.setattr(gateway_server, "METADATA_TOPIC", "gateways-metadata")
    monkeypatch.setattr(gateway_server, "SHARES_TOPIC", "gateways-shares")


async def soon(claim: Callable[[], object]) -> None:
    """Wait until `claim` holds. The gateways tell each other something once a second, in two records."""
    with trio.move_on_after(WITHIN_S):
        while True:
            with suppress(AssertionError, ValueError):
                claim()
                return
            await trio.sleep(0.01)
    claim()


async def lists(views: Views, query: ConnectionQuery) -> RemoteConnections:
    """Return the first list that is not empty: the other gateway is asked for two seconds at a time."""
    with trio.fail_after(WITHIN_S):
        while not (  # noqa: ASYNC110 - nothing announces it
            found := await views.shares.connections(query)
        ).rows:
            await trio.sleep(0.1)
    return found


async def throttle(gateway: RunningGateway, connections: int) -> None:
    """Throttle connections of the client id greedy for a minute, as the network does."""
    server = gateway.server
    rule = QuotaAlteration(GREEDY, (QuotaOp("producer_byte_rate", 1_000.0),))
    await server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    # A request waits for the bytes before it.
    assert server.quotas.record_produce("ANONYMOUS", "greedy", 500_000, server.clock.ms()) is None
    for number in range(connections):
        now_ms = server.clock.ms()
        found = server.quotas.record_produce("ANONYMOUS", "greedy", 500_000, now_ms)
        assert found is not None
        connection = Connection(id=f"connection {number}", client_id="greedy")
        server.quotas.throttle(connection, connection, found, now_ms)


async def test_it_shows_the_traffic_and_throttles_of_both(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, CONSOLE, "node.id=7") as one,
    ):
        views = one.server.views
        (alone,) = views.shares.gateways()
        name, _, digits = alone.gateway_id.partition("-")
        assert (name, len(digits)) == ("7", 12)
        sums = views.overview().gateways
        assert sums is not None and sums.gateways == 1
        async with running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=8") as other:
            client = await other.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
            await throttle(other, 2)
            await soon(lambda: shows(one, other))
            # One without a console does not read what the others tell of their clients.
            assert {each.gateway for each in other.server.views.quotas.throttled()} == {""}

        def is_alone() -> None:
            assert views.quotas.throttled() == []
            assert [each.gateway_id for each in views.shares.gateways()] == [alone.gateway_id]

        await soon(is_alone)


async def test_a_gateway_alone_opens_its_whole_limit_from_its_first_connection_on(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, "max.connections.per.ip=8") as one,
    ):
        clients = [await one.connect() for _ in range(8)]
        for client in clients:
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        refused = await one.connect()
        with trio.fail_after(WITHIN_S):
            assert await refused.is_closed()


async def test_more_request_time_than_the_gateways_have_threads_for_is_warned_of(tmp_path: Path) -> None:
    async def warnings(gateway: RunningGateway, percent: float) -> tuple[str, ...]:
        rule = QuotaAlteration(GREEDY, (QuotaOp("request_percentage", percent),))
        command = AlterClientQuotas((rule,), validate_only=True)
        (outcome,) = await gateway.server.control.apply(command, BROKER_ITSELF)
        assert outcome.ok
        return outcome.warnings

    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, CONSOLE, "node.id=7") as one,
    ):
        (alone,) = await warnings(one, 200)
        assert "takes no effect while there is one gateway" in alone
        assert await warnings(one, 100) == ()
        async with running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=8") as other:

            def know_each_other() -> None:
                assert all(len(each.server.views.shares.gateways()) == 2 for each in (one, other))

            await soon(know_each_other)
            for each in (one, other):
                assert await warnings(each, 200) == ()
                (both,) = await warnings(each, 201)
                assert "takes no effect while there are 2 gateways" in both


async def test_it_lists_the_connections_and_adds_up_the_use_of_both(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, CONSOLE, "node.id=7", LONG_WINDOWS) as one,
        running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=8", LONG_WINDOWS) as other,
    ):
        views, quotas = one.server.views, one.server.quotas

        def is_limited() -> None:
            assert quotas.produce.active

        def both_report() -> None:
            assert [each.traffic is not None for each in views.shares.gateways()] == [True, True]

        rule = QuotaAlteration(GREEDY, (QuotaOp("producer_byte_rate", 1_000_000.0),))
        await other.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        for gateway in (one, other):
            client = await gateway.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
            await soon(is_limited)
            gateway.server.quotas.record_produce("ANONYMOUS", "greedy", 100_000, gateway.server.clock.ms())
        await soon(both_report)
        (mine,) = connection_rows(views)
        found = await lists(views, ConnectionQuery())
        (theirs,) = found.rows
        assert (found.total, found.of, found.unlisted, found.unanswered) == (1, 1, 0, 0)
        assert theirs.connection_id != mine.connection_id
        (wanted,) = connection_rows(other.server.views)
        assert replace(theirs, bytes_in=0, requests=0) == replace(
            wanted, gateway=views.shares.gateways()[-1].gateway_id, bytes_in=0, requests=0
        )
        search = ConnectionQuery(wanted.connection_id)
        assert [row.connection_id for row in (await lists(views, search)).rows] == [wanted.connection_id]

        def adds_up() -> None:
            """100,000 bytes of each, over ten to eleven windows."""
            (row,) = (row for row in quota_rows(views) if row.entity == GREEDY)
            observed = row.limits[0].observed
            assert observed is not None and 200_000 / 11 <= observed * WINDOW_S <= 200_001 / 10
            assert views.shares.unlisted_use() == 0

        await soon(adds_up)


async def test_it_explains_the_clients_and_addresses_of_both(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, CONSOLE, "node.id=7", LONG_WINDOWS) as one,
        running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=8", LONG_WINDOWS) as other,
    ):
        views = one.server.views
        client = await other.connect()
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        await throttle(other, 2)

        def is_explained() -> None:
            (theirs,) = (row.gateway_id for row in views.shares.gateways() if row.gateway_id.startswith("8-"))
            found = {now.key: now for now, _ in run_through(views.quotas.resolve(None, "greedy"))}[
                "producer_byte_rate"
            ]
            (use,) = found.gateways
            assert (found.matched, found.bound, found.unlisted) == (GREEDY, 1_000.0, ())
            assert (use.gateway, use.throttled, use.observed) == (theirs, 2, found.observed)
            assert found.wait_ms is not None and found.wait_ms > 0
            (wanted,) = usage_rows(other.server.views)
            (row,) = usage_rows(views)
            assert (row.client_id, row.connections, row.gateways) == (wanted.client_id, 1, (theirs,))
            assert (row.bytes_in, row.limited_by) == (wanted.bytes_in, ())
            assert sum(step[0] for step in row.history()) == row.bytes_in
            (address,) = address_rows(views)
            (there,) = address.elsewhere
            assert (address.address, address.use) == ("127.0.0.1", None)
            assert (there.gateway, there.connections, there.accepted) == (theirs, 1, 1)
            assert (views.shares.unlisted_clients(), views.shares.unlisted_addresses()) == (0, 0)
            assert sorted(views.shares.without_report()) == []

        await soon(is_explained)


def shows(one: RunningGateway, other: RunningGateway) -> None:
    """The console of `one` shows a connection and two throttles of `other`."""
    views = one.server.views
    (row,) = (row for row in views.shares.gateways() if row.gateway_id.startswith("8-"))
    assert len(views.quotas.throttled()) == 2
    for each in views.quotas.throttled():
        assert (each.gateway, each.client_id, each.entity) == (row.gateway_id, "greedy", GREEDY)
        assert 0 < each.bound <= 1_000
    assert row.traffic is not None and row.address == other.started.bootstrap[0]
    assert (row.traffic.connections, row.traffic.throttled) == (1, 2)
    overview = views.overview()
    assert overview.gateways is not None
    assert (overview.gateways.gateways, overview.gateways.connections) == (2, 1)
    assert (overview.gateways.throttled, overview.metrics.throttled) == (2, 0)
    page = parse(one.server.prometheus.page())
    assert page["weir_gateways_throttled_connections"].value(gateway=row.gateway_id) == 2
