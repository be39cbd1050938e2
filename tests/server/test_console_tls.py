"""TLS of the console by configuration: keys, errors that stop the start, and reloaded files."""

import logging
import ssl
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.config.sections import ConsoleConfig
from broker.security.tls import parse_pem
from broker.server import web
from tests.support.certificates import PASSWORD, Identity, certificates
from tests.support.kubelet import SecretVolume

LOCATION = "console.ssl.keystore.location"


def settings(*overrides: str) -> ConsoleConfig:
    return load(None, [f"console.ssl.{each}" for each in overrides], {}).config.console


def shown_by(context: ssl.SSLContext) -> bytes:
    """Return the certificate that the server presents, in DER."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server)
    theirs = context.wrap_bio(to_server, to_client, server_side=True)
    for each in (ours, theirs) * 3:
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = ours.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_without_a_key_store_it_speaks_http() -> None:
    assert settings().tls() is None and not settings().is_encrypted
    assert web._encryption(settings()) is None


def test_a_file_and_the_same_in_line_are_both_taken() -> None:
    known = certificates()
    pem = parse_pem(known.server.text())
    (key,), chain = pem.keys, pem.certificates
    inline = settings(
        f"keystore.key={' '.join(key.split())}",
        f"keystore.certificate.chain={' '.join(''.join(chain).split())}",
    )
    for given in (settings(f"keystore.location={known.server.store}"), inline):
        context = web._encryption(given)
        assert context is not None
        assert shown_by(context()) == ssl.PEM_cert_to_DER_cert(known.server.certificate.read_text())
        assert context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_key_with_a_password_is_read_with_it() -> None:
    store = f"keystore.location={certificates().locked.store}"
    assert web._encryption(settings(store, f"key.password={PASSWORD}")) is not None
    for wrong in ((store,), (store, "key.password=wrong")):
        with pytest.raises(ConfigError) as caught:
            web._encryption(settings(*wrong))
        assert "console.ssl.key.password" in str(caught.value) and PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("keystore.location=/nowhere.pem",), (LOCATION, "/nowhere.pem", "regular file")),
        (("keystore.location={ca}",), (LOCATION, "one key and its certificate chain as PEM", "0 keys")),
        (("keystore.key=nonsense",), ("console.ssl.keystore.key", "(hidden)", "one key")),
        (("keystore.location={store}", "keystore.key=x"), (LOCATION, "not together with")),
        (("key.password=alone",), ("console.ssl.key.password", "(hidden)", "set it only with")),
    ],
)
def test_an_unusable_certificate_stops_the_start_with_the_reason(
    overrides: tuple[str, ...], words: tuple[str, ...]
) -> None:
    known = certificates()
    names = {"ca": known.authority.certificate, "store": known.server.store}
    with pytest.raises(ConfigError) as caught:
        web._encryption(settings(*(each.format(**names) for each in overrides)))
    assert all(word in str(caught.value) for word in words), caught.value
    assert "alone" not in str(caught.value)


def test_a_certificate_that_was_replaced_is_taken_and_a_wrong_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known, now_ms = certificates(), [0]
    monkeypatch.setattr(web, "monotonic_ms", lambda: now_ms[0])
    file = tmp_path / "store.pem"
    file.touch(0o600)
    file.write_text(known.server.text())
    context = web._encryption(settings(f"keystore.location={file}"))
    assert context is not None
    first, second = (
        ssl.PEM_cert_to_DER_cert(each.certificate.read_text()) for each in (known.server, known.alice)
    )
    assert shown_by(context()) == first
    file.write_text(known.alice.text() + "\n")
    assert shown_by(context()) == first
    now_ms[0] += 1_000
    assert shown_by(context()) == second
    file.write_text("half of it")
    now_ms[0] += 1_000
    with caplog.at_level(logging.WARNING):
        assert [shown_by(context()) for _ in range(3)] == [second] * 3
    assert [record.message for record in caplog.records] == ["the console's new certificate cannot be used"]


def test_a_mounted_secret_that_kubelet_replaces_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, now_ms = certificates(), [0]
    monkeypatch.setattr(web, "monotonic_ms", lambda: now_ms[0])

    def files(identity: Identity) -> dict[str, str]:
        return {"tls.key": identity.key.read_text(), "tls.crt": identity.certificate.read_text()}

    secret = SecretVolume(tmp_path / "tls", files(known.server))
    context = web._encryption(settings(f"keystore.location={secret.path('tls.key')}"))
    assert context is not None
    for identity in (known.server, known.alice, known.server):
        secret.write(files(identity))
        now_ms[0] += 1_000
        assert shown_by(context()) == ssl.PEM_cert_to_DER_cert(identity.certificate.read_text())


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_world_readable_key_is_warned_of(
    tmp_path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "store.pem"
    file.write_text(certificates().server.text())
    file.chmod(mode)
    web._encryption(settings(f"keystore.location={file}"))
    assert ("every user of this machine" in caplog.text) == warned


@pytest.mark.parametrize(("more", "warned"), [((), True), ((f"{LOCATION}=/etc/weir/console.pem",), False)])
def test_a_console_in_the_open_is_warned_of_where_it_is_not_encrypted(
    more: tuple[str, ...], warned: bool
) -> None:
    warnings = load(None, ["console.listener=0.0.0.0:8080", *more], {}).warnings
    assert any("the console at" in each for each in warnings) == warned
