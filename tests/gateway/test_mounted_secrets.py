"""A gateway whose certificates are in mounted Kubernetes secrets, which kubelet replaces while it runs."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import trio
from trio.testing import MockClock

from broker.config.sections import TlsConfig
from broker.protocol.messages.metadata import MetadataRequest
from broker.security.tls import server_context
from broker.security.watched_files import CHECK_EVERY_MS
from tests.security.test_mounted_secrets import der, files_of
from tests.support.certificates import Authority, Identity, certificates
from tests.support.fake_upstream import FakeCluster, fake_cluster
from tests.support.kubelet import SecretVolume
from tests.support.running_gateway import RunningGateway, running_gateway
from tests.support.wire import OPENED, WireClient


class Mounted(NamedTuple):
    cluster: FakeCluster
    gateway: RunningGateway
    own: SecretVolume
    upstream: SecretVolume

    async def connect(self) -> tuple[WireClient, bytes]:
        """A new connection, and the certificate that the gateway shows."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stream = await trio.open_tcp_stream("127.0.0.1", self.gateway.port)
        OPENED.append(stream)
        tls = trio.SSLStream(stream, context, https_compatible=True)
        await tls.do_handshake()
        shown = tls.getpeercert(binary_form=True)
        assert shown is not None
        return WireClient(tls, "suite"), shown


def shows(identity: Identity) -> ssl.SSLContext:
    return server_context(TlsConfig(keystore_location=str(identity.store)))


@asynccontextmanager
async def mounted(tmp_path: Path) -> AsyncIterator[Mounted]:
    known = certificates()
    own = SecretVolume(tmp_path / "own", files_of(known.server))
    upstream = SecretVolume(tmp_path / "upstream", {"ca.crt": known.authority.certificate.read_text()})
    async with fake_cluster(1) as cluster:
        cluster.tls = shows(known.server)
        async with running_gateway(
            tmp_path / "gateway",
            cluster.live[0].port,
            "listeners=SSL://127.0.0.1:0",
            f"ssl.keystore.location={own.path('tls.key')}",
            "upstream.security.protocol=SSL",
            f"upstream.ssl.truststore.location={upstream.path('ca.crt')}",
        ) as gateway:
            yield Mounted(cluster, gateway, own, upstream)


async def test_new_connections_have_what_kubelet_has_put_in_place(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Those that are open stay, and no connection fails."""
    known = certificates()
    async with mounted(tmp_path) as at:
        mock_clock.autojump_threshold = 0.05
        first, shown = await at.connect()
        assert shown == der(known.server)
        assert (await first.ask(MetadataRequest([]), 9)).brokers
        at.own.write(files_of(known.alice))
        await trio.sleep(CHECK_EVERY_MS / 1_000)
        second, shown = await at.connect()
        assert shown == der(known.alice)
        for client in (first, second):
            assert (await client.ask(MetadataRequest([]), 9)).brokers


async def test_an_upstream_cluster_with_another_authority_is_reached_with_the_new_secret(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    other = Authority(tmp_path, "other")
    async with mounted(tmp_path) as at:
        mock_clock.autojump_threshold = 0.05
        at.cluster.tls = shows(other.sign("server", "/CN=broker"))
        refused, _ = await at.connect()
        await refused.send(MetadataRequest([]), 9)
        assert await refused.is_closed()
        at.upstream.write({"ca.crt": other.certificate.read_text()})
        await trio.sleep(CHECK_EVERY_MS / 1_000)
        client, _ = await at.connect()
        assert (await client.ask(MetadataRequest([]), 9)).brokers
