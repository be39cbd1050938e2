"""The metrics that TLS adds to a network thread: ciphers, and handshakes counted as logins."""

from pathlib import Path

import pytest
import trio

from broker.network.connection.channel import Channel
from broker.network.server_metrics import MAX_CLIENTS, ciphers, totals_of
from tests.network.test_login import MODULE, log_in
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import until
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import connection_rows


def logins(broker: RunningBroker) -> tuple[float, float, float]:
    """Succeeded, failed, without re-authentication."""
    (processor,) = broker.server.socket_server.processors()
    totals = totals_of(processor, broker.server.clock.ns())
    return totals.logins, totals.failed_logins, totals.logins_without_reauth


def connections(broker: RunningBroker) -> list[Channel]:
    return list(broker.server.socket_server.channels())


async def test_handshakes_are_logins_where_no_other_follows(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as broker:
        known = certificates()
        await broker.connect_tls(known.client_context(known.alice))
        stranger = await broker.connect_tls(known.client_context(known.stranger))
        assert await stranger.is_closed()
        gone = await trio.open_tcp_stream("127.0.0.1", broker.port)
        await until(lambda: len(connections(broker)) == 2)
        await gone.aclose()  # no failure: no handshake began
        await until(lambda: len(connections(broker)) == 1)
        assert logins(broker) == (1, 1, 1)


async def test_before_a_login_only_a_handshake_that_fails_is_counted(tmp_path: Path) -> None:
    jaas = f'listener.name.sasl_ssl.plain.sasl.jaas.config={MODULE} user_alice="secret";'
    async with running_broker(tmp_path, *tls_settings("SASL_SSL"), jaas) as broker:
        client = await broker.connect_tls(certificates().client_context())
        assert logins(broker) == (0, 0, 0)
        assert await log_in(client, b"secret") == 0
        assert logins(broker) == (1, 0, 0)
        async with await trio.open_tcp_stream("127.0.0.1", broker.port) as stranger:
            await stranger.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda: logins(broker) == (1, 1, 0))


async def test_connections_are_distinguished_by_their_cipher(tmp_path: Path) -> None:
    async with running_broker(tmp_path, *tls_settings()) as broker:
        old = certificates().client_context()
        old.maximum_version = old.minimum_version.TLSv1_2
        for context in (certificates().client_context(), certificates().client_context(), old):
            await broker.connect_tls(context)
        page = parse(broker.server.prometheus.page())
        family = page["kafka_server_socket_server_metrics_connections_tls_info"]
        where = {"listener": "SSL", "networkProcessor": "0"}
        modern = {"cipher": "TLS_AES_256_GCM_SHA384", "protocol": "TLSv1.3"}
        older = {"cipher": "ECDHE-ECDSA-AES256-GCM-SHA384", "protocol": "TLSv1.2"}
        assert sorted(row.tls for row in connection_rows(broker.server.views)) == [
            "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384",
            "TLSv1.3 TLS_AES_256_GCM_SHA384",
            "TLSv1.3 TLS_AES_256_GCM_SHA384",
        ]
        assert family.value(**modern, **where) == 2
        assert family.value(**older, **where) == 1


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_no_more_than_a_hundred_ciphers_are_distinguished(tmp_path: Path, more: int) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(MAX_CLIENTS + more):
            await broker.connect()
            await until(lambda wanted=number + 1: len(connections(broker)) == wanted)  # type: ignore[misc]
            connections(broker)[number].tls = (f"cipher-{number}", "TLSv1.3")
        (processor,) = broker.server.socket_server.processors()
        found = ciphers(processor)
        assert len(found) == min(MAX_CLIENTS + more, MAX_CLIENTS)
