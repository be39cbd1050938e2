"""Certificates in a mounted Kubernetes secret are read again when kubelet replaces it, whole."""

import ssl
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.gateway.upstream.security import ClientCertificates
from broker.security import tls
from broker.security.tls import MAX_STORE_BYTES, Certificates, is_readable_by_others, server_context
from broker.security.watched_files import CHECK_EVERY_MS
from tests.security.test_tls import STORE, config, refusal
from tests.server.test_console_tls import shown_by
from tests.support.certificates import Authority, Identity, certificates
from tests.support.kubelet import SecretVolume


def files_of(identity: Identity, **more: str) -> dict[str, str]:
    found = {
        "tls.key": identity.key,
        "tls.crt": identity.certificate,
        "ca.crt": certificates().authority.certificate,
    }
    return {name: path.read_text() for name, path in found.items()} | more


def der(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.certificate.read_text())


def names_in(context: ssl.SSLContext) -> list[str]:
    """The common names of the authorities that are trusted."""
    subjects = [dict(part for part in each["subject"][0]) for each in context.get_ca_certs()]
    return [subject["commonName"] for subject in subjects]


def test_a_listener_shows_the_certificate_that_the_secret_has(tmp_path: Path) -> None:
    known = certificates()
    secret = SecretVolume(tmp_path / "tls", files_of(known.server))
    settings = config(
        keystore_location=str(secret.path("tls.key")), truststore_location=str(secret.path("ca.crt"))
    )
    loaded = Certificates(settings)
    assert shown_by(loaded.context) == der(known.server)
    for turn, identity in enumerate((known.alice, known.server, known.alice)):
        secret.write(files_of(identity))
        loaded.renew(turn * CHECK_EVERY_MS)
        assert shown_by(loaded.context) == der(identity)
    loaded.renew(9 * CHECK_EVERY_MS)
    assert shown_by(loaded.context) == der(known.alice)


def test_the_authorities_of_clients_are_those_of_the_secret(tmp_path: Path) -> None:
    known = certificates()
    other = Authority(tmp_path, "other").certificate.read_text()
    secret = SecretVolume(tmp_path / "tls", files_of(known.server))
    loaded = Certificates(
        config(
            keystore_location=str(secret.path("tls.key")),
            truststore_location=str(secret.path("ca.crt")),
            client_auth="required",
        )
    )
    assert names_in(loaded.context) == ["authority"]
    secret.write(files_of(known.server, **{"ca.crt": other}))
    loaded.renew(0)
    assert names_in(loaded.context) == ["other"]


def test_the_upstream_cluster_is_verified_with_the_secret_that_is_there(tmp_path: Path) -> None:
    known = certificates()
    secret = SecretVolume(tmp_path / "tls", files_of(known.alice))
    upstream = load(
        None,
        [
            f"upstream.ssl.truststore.location={secret.path('ca.crt')}",
            f"upstream.ssl.keystore.location={secret.path('tls.key')}",
        ],
        {},
    ).config.upstream
    kept = ClientCertificates(upstream)
    first = kept.context
    kept.renew(0)
    assert kept.context is first
    secret.write(files_of(known.server, **{"ca.crt": Authority(tmp_path, "other").certificate.read_text()}))
    kept.renew(CHECK_EVERY_MS)
    assert names_in(kept.context) == ["other"]
    secret.write(files_of(known.server, **{"ca.crt": "nonsense"}))
    with pytest.raises(ConfigError, match="truststore"):
        kept.renew(2 * CHECK_EVERY_MS)
    secret.write(files_of(known.server))
    kept.renew(3 * CHECK_EVERY_MS)
    assert names_in(kept.context) == ["authority"]


def test_a_secret_that_is_replaced_while_it_is_read_never_mixes_key_and_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of before goes, so the chain is missing; the next check finds the newest version."""
    known = certificates()
    secret = SecretVolume(tmp_path / "tls", files_of(known.server))
    loaded = Certificates(config(keystore_location=str(secret.path("tls.key"))))
    secret.write(files_of(known.alice))
    really = tls.read_regular
    asked = []

    def replaced_meanwhile(name: str, most: int) -> bytes:
        found = really(name, most)
        asked.append(name)
        if len(asked) == 1:
            secret.write(files_of(known.server))
        return found

    monkeypatch.setattr(tls, "read_regular", replaced_meanwhile)
    with pytest.raises(ConfigError, match="a PEM file"):
        loaded.renew(0)
    assert shown_by(loaded.context) == der(known.server)
    secret.write(files_of(known.alice))
    loaded.renew(CHECK_EVERY_MS)
    assert shown_by(loaded.context) == der(known.alice)


def test_files_without_kubelet_are_read_again_too(tmp_path: Path) -> None:
    """Replaced one after the other: the chain of before does not fit the new key, and stays in use."""
    known = certificates()
    for name, text in files_of(known.server).items():
        (tmp_path / name).write_text(text)
    loaded = Certificates(config(keystore_location=str(tmp_path / "tls.key")))
    (tmp_path / "tls.key").write_text(known.alice.key.read_text() + "\n")
    with pytest.raises(ConfigError, match="key values mismatch"):
        loaded.renew(0)
    assert shown_by(loaded.context) == der(known.server)
    (tmp_path / "tls.crt").write_text(known.alice.certificate.read_text() + "\n")
    loaded.renew(CHECK_EVERY_MS)
    assert shown_by(loaded.context) == der(known.alice)


def test_a_key_file_with_its_chain_needs_no_other(tmp_path: Path) -> None:
    (tmp_path / "tls.key").write_text(certificates().server.text())
    context = server_context(config(keystore_location=str(tmp_path / "tls.key")))
    assert shown_by(context) == der(certificates().server)


@pytest.mark.parametrize("missing", ["tls.key", "tls.crt"])
def test_half_a_secret_is_refused_as_any_store_is(tmp_path: Path, missing: str) -> None:
    files = files_of(certificates().server)
    del files[missing]
    secret = SecretVolume(tmp_path / "tls", files)
    name = str(secret.path("tls.key"))
    assert refusal(config(keystore_location=name)) == ("ssl.keystore.location", name, STORE)


@pytest.mark.parametrize(("more", "is_taken"), [(-1, True), (0, True), (1, False)])
def test_both_files_have_at_most_a_megabyte(tmp_path: Path, more: int, is_taken: bool) -> None:
    files = files_of(certificates().server)
    files["tls.crt"] = files["tls.crt"].ljust(MAX_STORE_BYTES + more - len(files["tls.key"]) - 1, "#")
    secret = SecretVolume(tmp_path / "tls", files)
    settings = config(keystore_location=str(secret.path("tls.key")))
    if is_taken:
        assert shown_by(server_context(settings)) == der(certificates().server)
    else:
        assert refusal(settings)[2] == f"at most {MAX_STORE_BYTES} characters of PEM"


def test_a_chain_that_links_to_itself_is_refused(tmp_path: Path) -> None:
    secret = SecretVolume(tmp_path / "tls", files_of(certificates().server))
    secret.path("..data").unlink()
    secret.path("..data").symlink_to("..data")
    assert refusal(config(keystore_location=str(secret.path("tls.key"))))[2] == STORE


def test_a_mounted_key_has_the_mode_of_the_secret(tmp_path: Path) -> None:
    secret = SecretVolume(tmp_path / "tls", files_of(certificates().server))
    settings = config(keystore_location=str(secret.path("tls.key")))
    assert not is_readable_by_others(settings)
    secret.path("..data/tls.key").chmod(0o644)
    assert is_readable_by_others(settings)
