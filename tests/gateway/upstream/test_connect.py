"""Connections to upstream brokers: names, TLS, logins, time limits, and no socket left behind."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.listeners import Address, SecurityProtocol
from broker.config.sections import TlsConfig, UpstreamConfig
from broker.gateway.upstream.connect import UpstreamSocket, open_connection
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import FrameStream
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.clock import TrioClock
from broker.network.connection.tls_socket import TlsSocket
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.metadata import MetadataRequest
from broker.security.client_login import SCRAM_MODULE
from broker.security.plain import PLAIN_MODULE
from broker.security.tls import server_context
from tests.support.certificates import certificates, tls_settings
from tests.support.fake_upstream import HOST, FakeCluster, Names, fake_cluster, full_backlog
from tests.support.running import running_broker


def jaas(mechanism: str, name: str = "weir", password: str = "secret") -> dict[str, Any]:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{module} required username="{name}" password="{password}";',
    }


def tls(**more: Any) -> dict[str, Any]:
    return {
        "security_protocol": SecurityProtocol.SSL,
        "ssl_truststore_location": str(certificates().authority.certificate),
        **more,
    }


def tls_server(**more: Any) -> ssl.SSLContext:
    known = certificates()
    return server_context(
        TlsConfig(
            keystore_location=str(known.server.store),
            truststore_location=str(known.authority.certificate),
            **more,
        )
    )


async def open_to(address: Address, *, login: bool = True, **more: Any) -> UpstreamSocket:
    config = UpstreamConfig(**more)
    return await open_connection(address, config, UpstreamSecurity(config, TrioClock()), login=login)


async def refusal(address: Address, *, login: bool = True, **more: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        (await open_to(address, login=login, **more)).sock.close()
    return caught.value


async def is_served(opened: UpstreamSocket) -> bool:
    """Ask for the API versions over the open connection, and close it."""
    frames = FrameStream(opened.sock, opened.fd)
    await frames.send(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x05\0\0")
    frame = await frames.receive()
    opened.sock.close()
    return frame.startswith(b"\0\0\0\x05\0\0")


async def test_a_plain_connection_is_a_socket_ready_for_epoll() -> None:
    async with fake_cluster() as fake:
        opened = await open_to(fake.live[0].address)
        sock = opened.sock
        assert isinstance(sock, socket.socket) and sock.gettimeout() == 0
        assert opened.fd == sock.fileno() and opened.address == fake.live[0].address
        assert opened.session_lifetime_ms == 0
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        fresh = socket.socket()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == fresh.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT
        )
        fresh.close()
        assert await is_served(opened)
        assert fake.live[0].count(ApiKey.SASL_HANDSHAKE) == 0


async def test_a_closed_port_is_refused() -> None:
    async with fake_cluster() as fake:
        fake.live[0].stop()
        await wait_all_tasks_blocked(0.01)
        error = await refusal(fake.live[0].address)
        assert error.reason is Reason.REFUSED
        assert str(error) == f"{fake.live[0].address}: Connection refused"


async def test_all_addresses_of_a_name_are_tried() -> None:
    async with fake_cluster() as fake:
        names = Names("127.0.0.2", HOST)
        assert await is_served(await open_to(Address("kafka.example", fake.live[0].port)))
        assert names.lookups == ["kafka.example"]


async def test_a_name_is_resolved_anew_for_every_connection() -> None:
    async with fake_cluster() as fake:
        names = Names("127.0.0.2")
        address = Address("kafka.example", fake.live[0].port)
        assert (await refusal(address)).reason is Reason.REFUSED
        names.hosts = (HOST,)
        assert await is_served(await open_to(address))


async def test_a_name_without_address_is_a_dns_error() -> None:
    Names()
    error = await refusal(Address("kafka.example", 9092))
    assert error.reason is Reason.DNS
    assert str(error) == "kafka.example:9092: cannot resolve the host name: Name or service not known"


async def test_an_impossible_name_is_a_dns_error() -> None:
    assert (await refusal(Address("kafka..example", 9092))).reason is Reason.DNS


@pytest.mark.parametrize("stuck_in", ["dns", "tcp", "tls", "login"])
async def test_the_setup_timeout_covers_every_step(mock_clock: MockClock, stuck_in: str) -> None:
    more: dict[str, Any] = {"connection_setup_timeout_ms": 3_000}
    errors: list[UpstreamError] = []
    with full_backlog() as full:
        async with fake_cluster() as fake:
            fake.live[0].answers_nothing = True
            address = fake.live[0].address
            match stuck_in:
                case "dns":
                    Names().hosts = None
                    address = Address("kafka.example", 9092)
                case "tcp":
                    address = full
                case "tls":
                    more |= tls()
                case "login":
                    more |= jaas("PLAIN")

            async def attempt() -> None:
                errors.append(await refusal(address, **more))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(attempt)
                await wait_all_tasks_blocked(0.02)
                mock_clock.jump(2.9375)
                await wait_all_tasks_blocked(0.02)
                assert errors == []
                mock_clock.jump(0.0625)
    assert [error.reason for error in errors] == [Reason.TIMEOUT]
    assert str(errors[0]) == f"{address}: the connection was not open within 3000 ms"


@pytest.mark.parametrize("stuck_in", ["tls", "login"])
async def test_a_cancelled_connection_leaves_no_socket(stuck_in: str) -> None:
    async with fake_cluster() as fake:
        (node,) = fake.live
        node.answers_nothing = True
        async with trio.open_nursery() as nursery:
            more = tls() if stuck_in == "tls" else jaas("PLAIN")
            nursery.start_soon(lambda: open_to(node.address, **more))
            await node.wait_until(lambda: node.open_connections == 1)
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        await node.wait_until(lambda: node.open_connections == 0)


# TLS


async def tls_cluster(fake: FakeCluster, **more: Any) -> Address:
    fake.tls = tls_server(**more)
    return fake.live[0].address


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("host", ["localhost", HOST, "localhost."])
async def test_tls_names_the_host_and_checks_the_certificate(version: str, host: str) -> None:
    async with fake_cluster() as fake:
        await tls_cluster(fake)
        Names(HOST)
        opened = await open_to(Address(host, fake.live[0].port), **tls(ssl_enabled_protocols=(version,)))
        assert isinstance(opened.sock, TlsSocket) and opened.fd > 0
        assert opened.sock.fileno() == -1 and opened.sock.cipher()[1] == version
        assert await is_served(opened)


async def test_a_certificate_for_another_host_is_refused() -> None:
    async with fake_cluster() as fake:
        address = Address("kafka.example", (await tls_cluster(fake)).port)
        Names(HOST)
        error = await refusal(address, **tls())
        assert error.reason is Reason.TLS and "certificate verify failed" in str(error)
        assert await is_served(await open_to(address, **tls(ssl_endpoint_identification="")))


async def test_a_certificate_of_an_unknown_authority_is_refused() -> None:
    async with fake_cluster() as fake:
        address = await tls_cluster(fake)
        stranger = certificates().stranger
        error = await refusal(address, **tls(ssl_truststore_location=str(stranger.certificate)))
        assert error.reason is Reason.TLS and "certificate verify failed" in str(error)


async def test_a_plain_broker_is_no_tls_broker() -> None:
    async with fake_cluster() as fake:
        fake.live[0].answers_garbage = True
        error = await refusal(fake.live[0].address, **tls())
        assert error.reason is Reason.TLS and "this is not TLS" in str(error)


async def test_a_broker_that_closes_in_the_handshake() -> None:
    async with fake_cluster() as fake:
        fake.live[0].hangs_up = True
        error = await refusal(fake.live[0].address, **tls())
        assert error.reason is Reason.CLOSED and "closed by the broker during the TLS handshake" in str(error)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_broker_that_requires_a_certificate(version: str, tmp_path: Path) -> None:
    """The broker is Weir's: in TLS 1.3 it refuses the certificate after the client's handshake is done."""
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as broker:
        address = Address(HOST, broker.port)
        shown = tls(
            client_keystore_location=str(certificates().alice.store), ssl_enabled_protocols=(version,)
        )
        assert await is_served(await open_to(address, **shown))

        config = UpstreamConfig(**tls(ssl_enabled_protocols=(version,)))
        connection = UpstreamConnection(address, config, UpstreamSecurity(config, TrioClock()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            with pytest.raises(UpstreamError) as caught:
                await connection.request(MetadataRequest([]))
        assert caught.value.reason in (Reason.TLS, Reason.CLOSED)


async def test_large_frames_pass_tls_in_both_directions() -> None:
    async with fake_cluster() as fake:
        address = await tls_cluster(fake)
        config = UpstreamConfig(**tls())
        fake.live[0].rack = "r" * 30_000
        connection = UpstreamConnection(address, config, UpstreamSecurity(config, TrioClock()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            for _ in range(20):
                answer = await connection.request(MetadataRequest([]))
                assert answer.brokers[0].rack == fake.live[0].rack
            connection.close()


# Logins


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "tls"])
async def test_a_login_with_the_gateways_own_credentials(mechanism: str, is_encrypted: bool) -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        fake.session_lifetime_ms = 60_000
        more = jaas(mechanism)
        if is_encrypted:
            await tls_cluster(fake)
            more |= tls() | {"security_protocol": SecurityProtocol.SASL_SSL}
        opened = await open_to(fake.live[0].address, **more)
        assert opened.session_lifetime_ms == 60_000
        assert await is_served(opened)


async def test_without_login_nothing_is_sent_and_the_client_logs_in() -> None:
    async with fake_cluster() as fake:
        fake.users = {"alice": "hers"}
        opened = await open_to(fake.live[0].address, login=False, **jaas("PLAIN"))
        await wait_all_tasks_blocked(0.01)
        assert fake.live[0].requests == []
        assert await is_served(opened)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("name", "password"), [("weir", "wrong"), ("nobody", "secret")])
async def test_wrong_credentials_are_refused(mechanism: str, name: str, password: str) -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        error = await refusal(fake.live[0].address, **jaas(mechanism, name, password))
        assert error.reason is Reason.CREDENTIALS
        assert str(error).startswith(f"{fake.live[0].address}: Authentication failed")
        assert password not in str(error)


async def test_a_mechanism_that_the_broker_lacks() -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        fake.mechanisms = ("PLAIN", "SCRAM-SHA-256")
        error = await refusal(fake.live[0].address, **jaas("SCRAM-SHA-512"))
        assert error.reason is Reason.CREDENTIALS
        assert "does not accept SCRAM-SHA-512; it accepts PLAIN, SCRAM-SHA-256" in str(error)


async def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        fake.forges_signatures = True
        error = await refusal(fake.live[0].address, **jaas("SCRAM-SHA-256"))
        assert error.reason is Reason.CREDENTIALS and "its SCRAM signature is wrong" in str(error)


async def test_a_login_without_credentials_names_the_key() -> None:
    async with fake_cluster() as fake:
        more = {"security_protocol": SecurityProtocol.SASL_PLAINTEXT}
        error = await refusal(fake.live[0].address, **more)
        assert error.reason is Reason.CREDENTIALS and "upstream.sasl.jaas.config" in str(error)


@pytest.mark.parametrize("fault", ["shifts_ids", "cuts_frames", "answers_garbage"])
async def test_a_login_that_breaks_the_protocol(fault: str) -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        setattr(fake.live[0], fault, True)
        error = await refusal(fake.live[0].address, **jaas("PLAIN"))
        assert error.reason is (Reason.CLOSED if fault == "cuts_frames" else Reason.PROTOCOL)


async def test_bytes_that_no_request_asked_for_end_the_login() -> None:
    async with fake_cluster() as fake:
        fake.users = {"weir": "secret"}
        fake.live[0].adds_bytes = True
        error = await refusal(fake.live[0].address, **jaas("PLAIN"))
        assert error.reason is Reason.PROTOCOL
