"""Invalid keys, certificates and cipher lists stop the start with the key and the reason; changed files are
read again.
"""

import os
import ssl
import textwrap
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.listeners import ListenerConfig, SecurityProtocol
from broker.config.load import build_config
from broker.config.sections import TlsConfig
from broker.security.tls import (
    MAX_STORE_BYTES,
    Certificates,
    is_readable_by_others,
    parse_pem,
    server_context,
)
from broker.security.watched_files import CHECK_EVERY_MS
from tests.support.certificates import PASSWORD, certificates

LISTENER = ListenerConfig("SSL", SecurityProtocol.SSL, "127.0.0.1", 0, "", 0)


def config(**values: str) -> TlsConfig:
    """Create the settings; `keystore_location` stands for `ssl.keystore.location`."""
    return build_config({f"ssl.{key.replace('_', '.')}": text for key, text in values.items()}).tls.of(
        LISTENER
    )


def good(**more: str) -> TlsConfig:
    return config(**{"keystore_location": str(certificates().server.store), **more})


def refusal(settings: TlsConfig) -> tuple[str, object, str]:
    with pytest.raises(ConfigError) as caught:
        server_context(settings)
    return caught.value.key, caught.value.value, caught.value.allowed


# Files

STORE = (
    "a PEM file: a regular file of at most 1048576 bytes that the broker can read, in one of "
    "ssl.store.allowed.directories if set while the broker runs"
)


@pytest.mark.parametrize("which", ["keystore_location", "truststore_location"])
@pytest.mark.parametrize(
    "what", ["missing", "directory", "fifo", "/dev/zero", "/dev/tty", "locked", "text", "nul"]
)
def test_an_invalid_store_is_refused_at_once_in_one_wording(tmp_path: Path, which: str, what: str) -> None:
    """A client that may alter settings learns nothing about other files, and the check never blocks."""
    path = Path(what) if what.startswith("/") else tmp_path / what
    if what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "memory":
        path.symlink_to("/proc/self/mem")
    elif what == "text":
        path.write_text("root:x:0:0")
    name = "a\0b" if what == "nul" else str(path)
    assert refusal(good(**{which: name})) == (f"ssl.{which.replace('_', '.')}", name, STORE)


def test_a_device_is_never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    really = os.open

    def watched(name: str, *how: int) -> int:
        opened.append(name)
        return really(name, *how)

    settings = good(), good(keystore_location="/dev/zero")
    monkeypatch.setattr(os, "open", watched)
    assert server_context(settings[0])
    before = list(opened)
    refusal(settings[1])
    assert before == [str(certificates().server.store)] == opened


@pytest.mark.parametrize(
    ("size", "taken"), [(MAX_STORE_BYTES - 1, True), (MAX_STORE_BYTES, True), (MAX_STORE_BYTES + 1, False)]
)
@pytest.mark.parametrize("inline", [False, True])
def test_a_store_has_at_most_a_megabyte(tmp_path: Path, size: int, taken: bool, inline: bool) -> None:
    path = tmp_path / "store.pem"
    content = certificates().server.store.read_bytes()
    path.write_bytes(content + b"#" * (size - len(content)))
    if inline:
        server = certificates().server
        chain = server.certificate.read_text().strip()
        key = server.key.read_text()
        key += "#" * (size - len(key) - len(chain) - 1)
        settings = config(keystore_key=key, keystore_certificate_chain=chain)
    else:
        settings = config(keystore_location=str(path))
    if taken:
        assert server_context(settings)
    else:
        assert "at most 1048576" in refusal(settings)[2]


# Keys


def test_a_store_of_key_and_chain_is_all_that_is_needed() -> None:
    context = server_context(good())
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION


def test_keys_may_stand_in_the_settings_themselves() -> None:
    server = certificates().server
    one_line = server.certificate.read_text().replace("\n", " ")
    assert server_context(config(keystore_key=server.key.read_text(), keystore_certificate_chain=one_line))


def test_a_locked_key_opens_with_its_password_alone() -> None:
    store = str(certificates().locked.store)
    assert server_context(config(keystore_location=store, key_password=PASSWORD))
    for wrong in ({}, {"key_password": "wrong"}):
        key, value, _ = refusal(config(keystore_location=store, **wrong))
        assert (key, value) == ("ssl.key.password", "(hidden)")


def test_a_listener_with_tls_needs_a_key() -> None:
    key, value, allowed = refusal(config())
    assert (key, value) == ("listener.name.ssl.ssl.keystore.location", "")
    assert allowed == "a PEM file, required by the TLS listener SSL"


def test_stores_that_cannot_be_used_are_reported_with_their_file(tmp_path: Path) -> None:
    known = certificates()
    broken = tmp_path / "broken.pem"
    begin, end = "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"
    cases = {
        str(tmp_path / "missing.pem"): STORE,
        str(tmp_path): STORE,
        str(known.server.certificate): "found 0 keys and 1 certificates",
        str(known.server.key): "found 1 keys and 0 certificates",
    }
    for file, reason in cases.items():
        key, value, allowed = refusal(config(keystore_location=file))
        assert (key, value) == ("ssl.keystore.location", file)
        assert allowed.endswith(reason)
    for text, reason in (
        (known.server.key.read_text() + known.alice.certificate.read_text(), "(key values mismatch)"),
        (f"{begin}QUJD{end}" + known.server.certificate.read_text(), ")"),
    ):
        broken.write_text(text)
        key, value, allowed = refusal(config(keystore_location=str(broken)))
        assert (key, value) == ("ssl.keystore.location", str(broken))
        assert allowed.startswith("a private key and its certificate chain")
        assert allowed.endswith(reason)


def test_settings_that_exclude_each_other_are_refused() -> None:
    server = certificates().server
    assert refusal(good(keystore_key=server.key.read_text()))[0] == "ssl.keystore.location"
    assert refusal(good(keystore_password="x"))[:2] == ("ssl.keystore.password", "(hidden)")
    trust = str(certificates().authority.certificate)
    assert refusal(good(truststore_password="x"))[:2] == ("ssl.truststore.password", "(hidden)")
    both = good(truststore_location=trust, truststore_certificates="x")
    assert refusal(both)[0] == "ssl.truststore.location"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "BCFKS"])
def test_javas_stores_are_refused_in_words(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"ssl\.keystore\.type='{kind}' is not allowed: PEM; `keytool"):
        config(keystore_type=kind)
    assert config(keystore_type="pem").keystore_type == "PEM"


# Trust


def test_client_certificates_need_a_truststore(tmp_path: Path) -> None:
    key, value, _ = refusal(good(client_auth="required"))
    assert (key, value) == ("ssl.client.auth", "required")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    missing = str(tmp_path / "missing.pem")
    assert refusal(good(truststore_location=missing, client_auth="required"))[:2] == (
        "ssl.truststore.location",
        missing,
    )
    assert refusal(good(truststore_location=str(empty)))[0] == "ssl.truststore.location"
    assert refusal(good(truststore_certificates="nothing of the kind"))[:2] == (
        "ssl.truststore.certificates",
        "(hidden)",
    )


@pytest.mark.parametrize(
    ("auth", "mode"),
    [("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
)
def test_client_auth_is_none_requested_or_required(auth: str, mode: ssl.VerifyMode) -> None:
    trust = certificates().authority.certificate.read_text().replace("\n", " ")
    assert server_context(good(truststore_certificates=trust, client_auth=auth)).verify_mode is mode


# Versions and ciphers


@pytest.mark.parametrize(
    ("enabled", "protocol", "lowest", "highest"),
    [
        ("TLSv1.2,TLSv1.3", "TLSv1.3", "TLSv1_2", "TLSv1_3"),
        ("TLSv1.3", "TLS", "TLSv1_3", "TLSv1_3"),
        ("TLSv1.2", "TLSv1.3", "TLSv1_2", "TLSv1_2"),
        ("TLSv1.2,TLSv1.3", "TLSv1.2", "TLSv1_2", "TLSv1_2"),
    ],
)
def test_versions_are_those_enabled_up_to_the_newest(
    enabled: str, protocol: str, lowest: str, highest: str
) -> None:
    context = server_context(good(enabled_protocols=enabled, protocol=protocol))
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)


def test_versions_that_leave_none_or_are_unsafe_are_refused() -> None:
    assert refusal(good(enabled_protocols="TLSv1.3", protocol="TLSv1.2"))[0] == "ssl.enabled.protocols"
    for old in ("TLSv1", "TLSv1.1", "SSLv3"):
        with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols"):
            config(enabled_protocols=old)


MODERN = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("suites", "lowest", "highest"),
    [
        (MODERN, "TLSv1_3", "TLSv1_3"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1_2", "TLSv1_2"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1_2", "TLSv1_2"),
        (f"{MODERN},TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1_2", "TLSv1_3"),
    ],
)
def test_suites_say_which_versions_are_left(suites: str, lowest: str, highest: str) -> None:
    context = server_context(good(cipher_suites=suites))
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)
    older = {each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")}
    assert older <= {
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
    } or (highest == "TLSv1_3" and lowest == "TLSv1_3")


@pytest.mark.parametrize(
    ("suites", "more"),
    [
        ("TLS_AES_256_GCM_SHA384", {}),
        ("TLS_NO_SUCH_SUITE", {}),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_NO_SUCH_SUITE", {}),
        (MODERN, {"enabled_protocols": "TLSv1.2"}),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", {"enabled_protocols": "TLSv1.3"}),
    ],
)
def test_suites_that_cannot_be_had_are_refused(suites: str, more: dict[str, str]) -> None:
    assert refusal(good(cipher_suites=suites, **more))[:2] == ("ssl.cipher.suites", suites)


# Renewal


def test_a_store_that_changes_is_used_from_then_on(tmp_path: Path) -> None:
    known, store = certificates(), tmp_path / "store.pem"
    store.write_text(known.server.text())
    loaded = Certificates(config(keystore_location=str(store)))
    first = loaded.context
    loaded.renew(0)
    assert loaded.context is first
    _replace(store, known.alice.text())
    loaded.renew(CHECK_EVERY_MS - 1)
    assert loaded.context is first
    loaded.renew(CHECK_EVERY_MS)
    assert loaded.context is not first


def test_a_store_that_cannot_be_used_is_reported_once_and_the_old_one_stays(tmp_path: Path) -> None:
    known, store = certificates(), tmp_path / "store.pem"
    store.write_text(known.server.text())
    loaded = Certificates(config(keystore_location=str(store)))
    first = loaded.context
    _replace(store, "half of a")
    with pytest.raises(ConfigError, match="a PEM file: a regular file"):
        loaded.renew(0)
    loaded.renew(CHECK_EVERY_MS)
    assert loaded.context is first
    store.unlink()
    with pytest.raises(ConfigError, match="a PEM file: a regular file"):
        loaded.renew(2 * CHECK_EVERY_MS)
    store.write_text(known.alice.text())
    loaded.renew(3 * CHECK_EVERY_MS)
    assert loaded.context is not first


def _replace(store: Path, text: str) -> None:
    store.with_suffix(".new").write_text(text)
    os.replace(store.with_suffix(".new"), store)


@pytest.mark.parametrize(("mode", "open_to_all"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_world_readable_key_is_detected(tmp_path: Path, mode: int, open_to_all: bool) -> None:
    store = tmp_path / "store.pem"
    store.write_text("")
    store.chmod(mode)
    assert is_readable_by_others(config(keystore_location=str(store))) is open_to_all


# One listener's own


def test_a_listener_has_its_own_values_over_those_of_all() -> None:
    loaded = build_config(
        {
            "ssl.keystore.location": "/all.pem",
            "ssl.client.auth": "required",
            "listener.name.inside.ssl.keystore.location": "/inside.pem",
        }
    )
    inside = loaded.tls.of(ListenerConfig("INSIDE", SecurityProtocol.SSL, "", 0, "", 0))
    assert (inside.keystore_location, inside.client_auth) == ("/inside.pem", "required")
    assert inside.key("ssl.keystore.location") == "listener.name.inside.ssl.keystore.location"
    assert inside.key("ssl.client.auth") == "ssl.client.auth"
    outside = loaded.tls.of(ListenerConfig("OUTSIDE", SecurityProtocol.SSL, "", 0, "", 0))
    assert outside.keystore_location == "/all.pem"
    assert outside.key("ssl.keystore.location") == "ssl.keystore.location"


@pytest.mark.parametrize(
    ("own", "auth"), [({}, "none"), ({"listener.name.l.ssl.client.auth": "requested"}, "requested")]
)
def test_client_auth_of_all_is_not_for_logins(own: dict[str, str], auth: str) -> None:
    """As in Kafka, SASL_SSL listeners accept it only with the listener's prefix."""
    loaded = build_config({"ssl.client.auth": "required", **own})
    assert loaded.tls.of(ListenerConfig("L", SecurityProtocol.SASL_SSL, "", 0, "", 0)).client_auth == auth


def test_a_store_is_its_key_and_its_chain_in_order() -> None:
    known = certificates()
    pem = parse_pem(known.server.text())
    assert len(pem.keys) == 1
    assert pem.certificates == (known.server.certificate.read_text(), known.authority.certificate.read_text())


def test_line_breaks_may_be_lost_or_be_others() -> None:
    text = certificates().server.text()
    whole = parse_pem(text)
    assert parse_pem(text.replace("\n", " ")) == whole
    assert parse_pem(text.replace("\n", "")) == whole
    assert parse_pem(text.replace("\n", "\r\n")) == whole
    assert parse_pem(f"Bag Attributes: none\n{text}\nwhatever") == whole


def test_the_header_of_an_old_encrypted_key_is_kept() -> None:
    body = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nQUJD\n"
    pem = parse_pem(f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n")
    assert pem.keys == (f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n",)


def test_blocks_that_do_not_end_or_are_something_else_are_left_out() -> None:
    text = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END PRIVATE KEY-----\n"
    other = "-----BEGIN EC PARAMETERS-----\nQUJD\n-----END EC PARAMETERS-----\n"
    assert parse_pem(text + other) == ((), ())


def test_a_block_ends_at_the_next_end_of_its_own_label() -> None:
    text = (
        "-----BEGIN A PRIVATE KEY-----QUJD-----BEGIN CERTIFICATE-----QQ-----END CERTIFICATE-----"
        "-----END A PRIVATE KEY----------BEGIN CERTIFICATE-----QUJD-----END CERTIFICATE-----"
    )
    pem = parse_pem(text)
    assert [len(pem.keys), len(pem.certificates)] == [1, 1]
    unlike = parse_pem("-----BEGIN CERTIFICATE-----QQ-----END B-----" + text)
    assert (len(unlike.keys), len(unlike.certificates)) == (0, 2)
    assert "ENDB" in unlike.certificates[0] and unlike.certificates[1] == pem.certificates[0]
    assert parse_pem("-----BEGIN X PRIVATE KEY-----QQ" + text) == pem


def test_a_megabyte_of_beginnings_takes_no_longer_than_a_megabyte_of_anything() -> None:
    """A naive parser searches to the end of the text for each of 40,000 beginnings."""
    assert parse_pem("-----BEGIN CERTIFICATE-----" * 40_000) == ((), ())
    assert parse_pem("-----BEGIN " + "A" * 1_000_000) == ((), ())


@pytest.mark.parametrize("size", [63, 64, 65, 128, 129])
def test_lines_have_sixty_four_characters(size: int) -> None:
    (found,) = parse_pem(f"-----BEGIN CERTIFICATE-----{'Q' * size}-----END CERTIFICATE-----").certificates
    assert found.splitlines()[1:-1] == textwrap.wrap("Q" * size, 64)
