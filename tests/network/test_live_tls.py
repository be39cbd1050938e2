"""Keys, trust and versions of TLS, changed at run time: the next connection gets the new values, and unusable
values are refused.
"""

import contextlib
import select
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from tests.network.test_live_listeners import ports
from tests.support.certificates import PASSWORD, Identity, certificates
from tests.support.hostile import is_served, until
from tests.support.live import alter_through, takes_effect
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import OPENED, WireClient, connect_tls

PREFIX = "listener.name.ssl."


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={certificates().server.store}",
        "wire.role=admin",
        f"ssl.store.allowed.directories={certificates().server.store.parent},{tmp_path}",
    ]
    async with running_broker(tmp_path, *settings) as running:
        yield running


async def alter_tls(broker: RunningBroker, **settings: str | None) -> tuple[int, str | None]:
    """Sets or removes keys of the SSL listener, written without `ssl.` and with underscores."""
    client = await broker.connect("operator")
    keys = {f"{PREFIX}ssl.{key.replace('_', '.')}": text for key, text in settings.items()}
    return await alter_through(client, keys)


async def visit(broker: RunningBroker, shown: Identity | None = None) -> WireClient:
    client = await connect_tls(ports(broker)["SSL"], certificates().client_context(shown))
    broker.clients.append(client)
    return client


async def shown_to(broker: RunningBroker) -> str:
    """The common name that the broker shows to a new connection."""
    client = await visit(broker)
    assert await is_served(client)
    return str(client.stream.getpeercert()["subject"][-1][0][1])


OK = (0, None)


@takes_effect("ssl.keystore.location")
async def test_another_store_is_shown_to_new_connections_and_the_old_ones_stay(broker: RunningBroker) -> None:
    before = await visit(broker)
    assert await shown_to(broker) == "broker"
    assert await alter_tls(broker, keystore_location=str(certificates().alice.store)) == OK
    assert await shown_to(broker) == "alice"
    assert await is_served(before)
    assert await alter_tls(broker, keystore_location=None) == OK
    assert await shown_to(broker) == "broker"


@takes_effect("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password")
async def test_keys_in_the_settings_themselves(tmp_path: Path) -> None:
    known = certificates()
    plain = [
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.key={known.server.key.read_text()}",
        f"ssl.keystore.certificate.chain={known.server.certificate.read_text()}",
    ]
    async with running_broker(tmp_path, *plain) as broker:
        assert await shown_to(broker) == "broker"
        locked = known.locked
        error, _ = await alter_tls(
            broker,
            keystore_key=locked.key.read_text(),
            keystore_certificate_chain=locked.certificate.read_text(),
        )
        assert error == ErrorCode.INVALID_REQUEST
        assert await shown_to(broker) == "broker"
        altered = await alter_tls(
            broker,
            keystore_key=locked.key.read_text(),
            keystore_certificate_chain=locked.certificate.read_text(),
            key_password=PASSWORD,
        )
        assert altered == OK
        assert await shown_to(broker) == "locked"


@takes_effect("ssl.client.auth", "ssl.truststore.location", "ssl.truststore.certificates")
async def test_trusted_certificates_and_whether_one_is_required(broker: RunningBroker) -> None:
    known = certificates()
    assert (await alter_tls(broker, client_auth="required"))[0] == ErrorCode.INVALID_REQUEST
    trust = known.authority.certificate
    assert await alter_tls(broker, client_auth="required", truststore_location=str(trust)) == OK
    assert await is_served(await visit(broker, known.alice))
    assert await (await visit(broker, known.stranger)).is_closed()
    altered = await alter_tls(
        broker, truststore_location=None, truststore_certificates=known.stranger.certificate.read_text()
    )
    assert altered == OK
    assert await is_served(await visit(broker, known.stranger))
    assert await (await visit(broker, known.alice)).is_closed()


@takes_effect("ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites")
async def test_versions_and_suites(broker: RunningBroker) -> None:
    async def agreed() -> tuple[str, str]:
        tls = (await visit(broker)).stream
        return tls.version(), tls.cipher()[0]

    assert (await agreed())[0] == "TLSv1.3"
    assert await alter_tls(broker, enabled_protocols="TLSv1.2") == OK
    assert (await agreed())[0] == "TLSv1.2"
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    assert await alter_tls(broker, enabled_protocols=None, cipher_suites=suite) == OK
    assert await agreed() == ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")
    assert await alter_tls(broker, cipher_suites=None, protocol="TLSv1.2") == OK
    assert (await agreed())[0] == "TLSv1.2"


async def test_a_listener_with_tls_is_added_with_its_keys_or_not_at_all(tmp_path: Path) -> None:
    allowed = f"ssl.store.allowed.directories={certificates().server.store.parent}"
    async with running_broker(tmp_path, allowed) as broker:
        client = await broker.connect("operator")
        listeners = f"PLAINTEXT://127.0.0.1:{broker.port},SSL://127.0.0.1:0"
        error, words = await alter_through(client, {"listeners": listeners})
        assert error == ErrorCode.INVALID_REQUEST
        assert words is not None and "listener.name.ssl.ssl.keystore.location" in words
        assert list(ports(broker)) == ["PLAINTEXT"]
        keys = {"listeners": listeners, f"{PREFIX}ssl.keystore.location": str(certificates().server.store)}
        assert await alter_through(client, keys) == OK
        assert await shown_to(broker) == "broker"


async def test_a_store_that_is_gone_by_the_time_of_the_change_leaves_the_old_keys(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The metadata write happens between the check and the change."""
    store = tmp_path / "store.pem"
    store.write_text(certificates().alice.text())
    check = broker.server.socket_server.check_tls

    def check_and_remove(*parts: object) -> Steps[None]:
        yield from check(*parts)  # type: ignore[arg-type]
        store.unlink()

    monkeypatch.setattr(broker.server.socket_server, "check_tls", check_and_remove)
    assert await alter_tls(broker, keystore_location=str(store)) == OK
    assert await shown_to(broker) == "broker"
    assert "cannot reload the keys of a listener" in caplog.text


def test_the_client_of_these_tests_checks_what_it_is_shown() -> None:
    assert certificates().client_context().verify_mode is ssl.CERT_REQUIRED


async def test_many_handshakes_at_once_leave_all_others_a_turn(
    broker: RunningBroker,
) -> None:
    """A step of a handshake is worth a hundred requests, and after a restart all clients come at once."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificates().client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    client = await broker.connect()
    assert await is_served(client)
    sockets = []
    for _ in range(200):
        stream = await trio.open_tcp_stream("127.0.0.1", ports(broker)["SSL"])
        OPENED.append(stream)
        sockets.append(stream.socket)
    await until(lambda: len(list(broker.server.socket_server.channels())) == 201)
    for sock in sockets:
        sock._sock.send(hello)  # type: ignore[attr-defined]

    readable = select.poll()  # select.select takes no descriptor above 1,023
    for sock in sockets:
        readable.register(sock.fileno(), select.POLLIN)

    def answered() -> int:
        return len(readable.poll(0))

    for _ in range(5):
        assert await is_served(client)
    assert 0 < answered() < 100
    await until(lambda: answered() == 200)
