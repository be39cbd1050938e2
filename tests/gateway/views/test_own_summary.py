"""What a gateway tells the others of itself."""

from pathlib import Path

from broker.common.steps import finished
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.sharing.summary import MAX_CHANNELS, MAX_USES
from broker.gateway.views.own_summary import OwnSummary
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Connection
from tests.support.fake_upstream import fake_cluster
from tests.support.running_gateway import RunningGateway, running_gateway


def own_of(gateway: RunningGateway) -> OwnSummary:
    server = gateway.server
    connections = server.server_quotas.connections.values()
    return OwnSummary("g1", server.socket_server, server.quotas, connections, server.clock)


def throttle(quotas: ClientQuotas, number: int, throttle_bytes: int, now_ms: int) -> None:
    found = quotas.record_produce("ANONYMOUS", "greedy", throttle_bytes, now_ms)
    assert found is not None
    connection = Connection(id=f"connection {number}", client_id="greedy")
    quotas.throttle(connection, connection, found, now_ms)


async def test_connections_bytes_requests_and_the_address(tmp_path: Path) -> None:
    async with fake_cluster() as cluster, running_gateway(tmp_path, cluster.live[0].port) as gateway:
        own = own_of(gateway)
        before = finished(own.measure())
        assert (before.gateway, before.address) == ("g1", gateway.started.bootstrap[0])
        assert (before.traffic.connections, before.traffic.bytes_in, before.channels) == (0, 0, ())
        for _ in range(2):
            client = await gateway.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        after = finished(own.measure()).traffic
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
        summary = finished(own_of(gateway).measure())
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
        assert finished(own.measure()).uses == ()
        server.quotas.record_produce("ANONYMOUS", "small", 5, now_ms)
        for number in range(MAX_USES):
            server.quotas.record_produce("ANONYMOUS", f"client {number}", 100 + number, now_ms)
            found = finished(own.measure())
            assert (len(found.uses), found.unlisted_uses) == (
                (number + 2, 0) if number < MAX_USES - 1 else (MAX_USES, 1)
            )
        # The largest part of its limit first.
        assert [use.clients[1] for use in found.uses[:2]] == ["small", f"client {MAX_USES - 1}"]
        assert found.uses[0].rule.pairs == (("client-id", "small"),)
        assert found.uses[1].rule.pairs == (("client-id", None),)
        assert "client 0" not in {use.clients[1] for use in found.uses}
