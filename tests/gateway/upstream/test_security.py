"""The client's side of TLS: what is checked, what stops the start, and files that change."""

import os
import ssl
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.security import ClientCertificates, client_context
from broker.security.watched_files import CHECK_EVERY_MS
from tests.support.certificates import PASSWORD, certificates


def config(**more: object) -> UpstreamConfig:
    return UpstreamConfig(**more)  # type: ignore[arg-type]


def trusting(**more: object) -> UpstreamConfig:
    return config(ssl_truststore_location=str(certificates().authority.certificate), **more)


def refusal(settings: UpstreamConfig) -> tuple[str, object]:
    with pytest.raises(ConfigError) as caught:
        client_context(settings)
    return caught.value.key, caught.value.value


def test_certificates_and_host_names_are_checked() -> None:
    context = client_context(trusting())
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_without_endpoint_identification_the_authority_is_still_checked() -> None:
    context = client_context(trusting(ssl_endpoint_identification=""))
    assert context.verify_mode is ssl.CERT_REQUIRED and not context.check_hostname


def test_the_authorities_can_be_a_text() -> None:
    text = certificates().authority.certificate.read_text()
    assert len(client_context(config(ssl_truststore_certificates=text)).get_ca_certs()) == 1


def test_without_a_trust_store_the_systems_authorities_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates().authority.certificate))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert len(client_context(config()).get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("enabled", "first", "last"),
    [
        (("TLSv1.3", "TLSv1.2"), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        (("TLSv1.2",), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_enabled_versions(enabled: tuple[str, ...], first: ssl.TLSVersion, last: ssl.TLSVersion) -> None:
    context = client_context(trusting(ssl_enabled_protocols=enabled))
    assert (context.minimum_version, context.maximum_version) == (first, last)


def test_a_locked_key_needs_its_password() -> None:
    store = str(certificates().locked.store)
    client_context(trusting(client_keystore_location=store, client_key_password=PASSWORD))
    for password in ("", "wrong"):
        key, value = refusal(trusting(client_keystore_location=store, client_key_password=password))
        assert (key, value) == ("upstream.ssl.key.password", "(hidden)")


def test_unusable_stores_are_refused_with_their_key(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.pem")
    only_certificates = str(certificates().authority.certificate)
    assert refusal(config(ssl_truststore_location=absent)) == ("upstream.ssl.truststore.location", absent)
    assert refusal(config(ssl_truststore_certificates="nonsense")) == (
        "upstream.ssl.truststore.certificates",
        "(hidden)",
    )
    assert refusal(config(ssl_truststore_location=absent, ssl_truststore_certificates="x")) == (
        "upstream.ssl.truststore.location",
        absent,
    )
    for store in (absent, only_certificates):
        assert refusal(trusting(client_keystore_location=store)) == ("upstream.ssl.keystore.location", store)


def test_a_changed_file_is_read_again_and_a_wrong_one_leaves_the_old_context(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    text = certificates().authority.certificate.read_text()
    store.write_text(text)
    kept = ClientCertificates(config(ssl_truststore_location=str(store)))
    first = kept.context
    kept.renew(CHECK_EVERY_MS)
    assert kept.context is first

    store.write_text(text + "\n")
    kept.renew(2 * CHECK_EVERY_MS - 1)
    assert kept.context is first
    kept.renew(2 * CHECK_EVERY_MS)
    second = kept.context
    assert second is not first

    store.write_text("nonsense")
    with pytest.raises(ConfigError):
        kept.renew(3 * CHECK_EVERY_MS)
    kept.renew(4 * CHECK_EVERY_MS)
    assert kept.context is second

    store.write_text(text)
    os.utime(store, ns=(1, 1))
    kept.renew(5 * CHECK_EVERY_MS)
    assert kept.context is not second
