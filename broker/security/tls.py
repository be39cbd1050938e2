"""Creates SSL contexts from a listener's `ssl.*` settings. (Kafka: SslFactory, DefaultSslEngineFactory)

Called by the socket server for each TLS listener. An invalid key, certificate or cipher list raises
ConfigError at startup; the error names the key and never shows a secret. `parse_pem` reads keys and
certificates. `broker.gateway.upstream.security` is the client's side. Independent of sockets.
"""

import logging
import os
import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from broker.common.errors import ConfigError
from broker.config.sections import TlsConfig
from broker.config.sections.tls import ALLOWED_STORE, MAX_STORE_BYTES
from broker.security.principal_rules import KEY, PrincipalRules
from broker.security.watched_files import CHECK_EVERY_MS, read_regular, stamps

logger = logging.getLogger(__name__)

_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_NEWEST: Final = "TLSv1.3"

_TLS_1_3_SUITES: Final = {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}

_OPENSSL_NAMES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}
"""Suites in use without known weakness. OpenSSL's own names are accepted too."""

_PEM_MARK = re.compile(r"-----(?P<what>BEGIN|END) (?P<label>[A-Z0-9 ]+)(?=-----)")
_PEM_DASHES: Final = 5
_PEM_HEADER = re.compile(r"\A(?:\s*[A-Za-z0-9-]+:[^\n]*\n)+")
"""`Proc-Type: 4,ENCRYPTED` and similar headers before the key in the traditional format."""

_PEM_LINE: Final = 64

KEY_FILE: Final = "tls.key"
CHAIN_FILE: Final = "tls.crt"
"""The files of a mounted Kubernetes secret of the type kubernetes.io/tls, such as cert-manager makes."""

SWAPPED: Final = "..data"
"""The link through which kubelet replaces all files of a secret at once."""


class Pem(NamedTuple):
    """The blocks of a text in order, each complete and ended by a line break."""

    keys: tuple[str, ...]
    certificates: tuple[str, ...]


class WatchedContext:
    """A TLS context that is made of files. `context` wraps the next connections."""

    def __init__(self) -> None:
        self._next_check_ms = 0

    def use(self, names: Iterable[str], make: Callable[[], ssl.SSLContext]) -> None:
        """Make the context of these files, of which those without a name do not exist. Raises what `make`
        raises, and keeps the context and files of before.
        """
        files = [Path(name) for name in names if name]
        seen = stamps(files)
        self.context = make()
        self._files, self._seen, self._make = files, seen, make

    def renew(self, now_ms: int) -> None:
        """Create a new context if a file has changed.

        Raises ConfigError, once per change, if the new content is invalid; the old context stays.
        """
        if now_ms < self._next_check_ms:
            return
        self._next_check_ms = now_ms + CHECK_EVERY_MS
        current = stamps(self._files)
        if current != self._seen:
            self._seen = current
            self.context = self._make()


class Certificates(WatchedContext):
    """The TLS state of one listener."""

    def __init__(self, config: TlsConfig) -> None:
        super().__init__()
        self.adopt(config)

    def adopt(self, config: TlsConfig) -> None:
        """Apply new settings. Raises ConfigError and keeps the old ones if they are invalid."""
        rules = PrincipalRules(config.principal_mapping_rules, config.key(KEY))
        files = *key_store_files(config.keystore_location), config.truststore_location
        self.use(files, partial(server_context, config))
        self.rules = rules


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """Create the context from the files.

    TLS 1.2 or later, without renegotiation and compression, with server cipher preference. Raises
    ConfigError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions(context, config)
    _set_ciphers(context, config)
    _load_keys(context, config)
    _load_trust(context, config)
    context.sni_callback = _note_server_name
    return context


def server_name(connection: ssl.SSLObject) -> str | None:
    """Return the host name that the client asked for in its handshake (SNI), or None."""
    name: str | None = getattr(connection, "requested_name", None)
    return name


def _note_server_name(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
    # OpenSSL gives a server the name only during the handshake.
    connection.requested_name = name  # type: ignore[attr-defined]


def is_readable_by_others(config: TlsConfig) -> bool:
    """Return whether others than owner and group can read the private key file."""
    try:
        return bool(config.keystore_location) and bool(Path(config.keystore_location).stat().st_mode & 0o004)
    except OSError:
        return False


def _set_versions(context: ssl.SSLContext, config: TlsConfig) -> None:
    newest = _NEWEST if config.protocol == "TLS" else config.protocol
    enabled = sorted(version for version in config.enabled_protocols if version <= newest)
    if not enabled:
        raise ConfigError(
            config.key("ssl.enabled.protocols"),
            ",".join(config.enabled_protocols),
            f"a version that is not newer than ssl.protocol ({config.protocol})",
        )
    context.minimum_version, context.maximum_version = VERSIONS[enabled[0]], VERSIONS[enabled[-1]]


def _set_ciphers(context: ssl.SSLContext, config: TlsConfig) -> None:
    if not config.cipher_suites:
        return
    key, shown = config.key("ssl.cipher.suites"), ",".join(config.cipher_suites)
    wanted = set(config.cipher_suites)
    modern, older = wanted & _TLS_1_3_SUITES, wanted - _TLS_1_3_SUITES
    if modern and modern != _TLS_1_3_SUITES:
        missing = ", ".join(sorted(_TLS_1_3_SUITES - modern))
        raise ConfigError(key, shown, f"all three suites of TLS 1.3 or none of them; {missing} is missing")
    try:
        if older:
            context.set_ciphers(
                ":".join(_OPENSSL_NAMES.get(name, name) for name in config.cipher_suites if name in older)
            )
            found = {cipher["name"] for cipher in context.get_ciphers()}
            unknown = [name for name in older if _OPENSSL_NAMES.get(name, name) not in found]
            if unknown:
                raise ConfigError(
                    key, shown, f"supported cipher suites; unknown: {', '.join(sorted(unknown))}"
                )
    except ssl.SSLError as error:
        raise ConfigError(key, shown, "supported cipher suites") from error
    try:
        if not modern:
            context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
        if not older:
            context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_3)
        if context.minimum_version > context.maximum_version:
            raise ValueError
    except ValueError as error:
        raise ConfigError(key, shown, "cipher suites of the versions in ssl.enabled.protocols") from error


def _load_keys(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.keystore_password:
        raise ConfigError(
            config.key("ssl.keystore.password"),
            "(hidden)",
            "an empty value with PEM, where only the key has a password (ssl.key.password)",
        )
    key, shown, text = _key_store(config)
    load_chain(context, (key, shown), text, config.key("ssl.key.password"), config.key_password)


def _key_store(config: TlsConfig) -> tuple[str, str, str]:
    """Return the setting of the key and its chain, what errors show as its value, and the PEM text."""
    inline = config.keystore_key or config.keystore_certificate_chain
    if config.keystore_location and inline:
        raise ConfigError(
            config.key("ssl.keystore.location"),
            config.keystore_location,
            "not together with ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    if inline:
        text = f"{config.keystore_key}\n{config.keystore_certificate_chain}"
        return config.key("ssl.keystore.key"), "(hidden)", text
    if config.keystore_location:
        key = config.key("ssl.keystore.location")
        return key, config.keystore_location, read_key_store(key, config.keystore_location)
    raise ConfigError(
        f"listener.name.{config.listener.lower()}.ssl.keystore.location",
        "",
        f"a PEM file, required by the TLS listener {config.listener}",
    )


def refuse_ended(config: TlsConfig, now_s: float) -> None:
    """Raise ConfigError if the time of the certificate was over at `now_s`, in seconds since the epoch.

    For a start and for a new listener, where somebody is there to read it. A certificate that ends while the
    broker runs is its clients' to refuse.
    """
    # Only TLS needs it, and it takes a tenth of a start.
    from cryptography import x509

    key, shown, text = _key_store(config)
    try:
        end = x509.load_pem_x509_certificate(parse_pem(text).certificates[0].encode()).not_valid_after_utc
    except ValueError:
        return  # OpenSSL reads more kinds of certificate than this
    if now_s > end.timestamp():
        raise ConfigError(
            key,
            shown,
            f"a certificate whose time is not over; it ended on {end:%Y-%m-%d at %H:%M} UTC: renew it, "
            "or set this machine's clock",
        )


def _load_trust(context: ssl.SSLContext, config: TlsConfig) -> None:
    key, shown, text = config.key("ssl.truststore.certificates"), "(hidden)", config.truststore_certificates
    if config.truststore_password:
        raise ConfigError(config.key("ssl.truststore.password"), "(hidden)", "an empty value with PEM")
    if config.truststore_location:
        if text:
            raise ConfigError(
                config.key("ssl.truststore.location"),
                config.truststore_location,
                "not together with ssl.truststore.certificates",
            )
        key, shown = config.key("ssl.truststore.location"), config.truststore_location
        text = read_store(key, shown)
    elif not text:
        if config.client_auth != "none":
            raise ConfigError(
                config.key("ssl.client.auth"),
                config.client_auth,
                "none, unless ssl.truststore.location is set",
            )
        return
    load_authorities(context, (key, shown), text)
    context.verify_mode = _CLIENT_AUTH[config.client_auth]


def load_chain(
    context: ssl.SSLContext, place: tuple[str, str], text: str, password_key: str, password: str
) -> None:
    """Load a private key and its certificate chain from PEM. `place` is the setting and what errors show as
    its value; `password_key` is the setting with the key's password. Raises ConfigError.
    """
    _check_length(place[0], text)
    pem = parse_pem(text)
    if len(pem.keys) != 1 or not pem.certificates:
        raise ConfigError(
            *place,
            f"one key and its certificate chain as PEM; found {len(pem.keys)} keys and "
            f"{len(pem.certificates)} certificates",
        )
    try:
        with _file_of(pem) as path:
            context.load_cert_chain(path, password=password)
    except (ssl.SSLError, ValueError) as error:
        if "ENCRYPTED" in pem.keys[0]:
            raise ConfigError(password_key, "(hidden)", "the password of the private key") from error
        reason = getattr(error, "reason", None) or "cannot be read"
        allowed = f"a private key and its certificate chain ({_readable(reason)})"
        raise ConfigError(*place, allowed) from error


def load_authorities(context: ssl.SSLContext, place: tuple[str, str], text: str) -> None:
    """Trust the certificates of a PEM text. `place` is as in `load_chain`. Raises ConfigError."""
    _check_length(place[0], text)
    certificates = parse_pem(text).certificates
    try:
        context.load_verify_locations(cadata="".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(*place, "certificates as PEM") from error
    # A trusted certificate needs no issuer in the store, as in Java.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


@contextmanager
def _file_of(pem: Pem) -> Iterator[str]:
    """Yield a path from which only OpenSSL in this process reads; the data stays in memory."""
    descriptor = os.memfd_create("keys", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write("".join((*pem.keys, *pem.certificates)).encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _check_length(key: str, text: str) -> None:
    if len(text) > MAX_STORE_BYTES:
        raise ConfigError(key, "(hidden)", f"at most {MAX_STORE_BYTES} characters of PEM")


def key_store_files(name: str) -> tuple[str, ...]:
    """Return the files of a key store: two where the key is that of a mounted secret."""
    return (name, str(Path(name).with_name(CHAIN_FILE))) if Path(name).name == KEY_FILE else (name,)


def read_key_store(key: str, name: str) -> str:
    """Read a PEM file with a private key and its chain, or both files of a mounted secret. Raises ConfigError
    as `read_store` does.
    """
    if Path(name).name != KEY_FILE:
        return read_store(key, name)
    folder = Path(name).parent
    if (folder / SWAPPED).is_symlink():
        folder = Path(os.path.realpath(folder / SWAPPED))
    text = read_store(key, name, folder / KEY_FILE)
    return text if "-----BEGIN CERT" in text else f"{text}\n{read_store(key, name, folder / CHAIN_FILE)}"


def read_store(key: str, name: str, path: Path | None = None) -> str:
    """Read a PEM file: the one that is named, or the one at `path`, which stands for it.

    Raises ConfigError with the same text for every failure: the name may come from a client, which must not
    learn about the files of this machine. The log has the reason.
    """
    try:
        text = read_regular(name if path is None else str(path), MAX_STORE_BYTES).decode("latin-1")
        if "-----BEGIN " in text:
            return text
        reason = "it contains no PEM block"
    except (OSError, ValueError) as error:
        reason = str(error)
    logger.info("a key store or trust store cannot be used", extra={"key": key, "reason": reason})
    raise ConfigError(key, name, ALLOWED_STORE)


def _readable(reason: str) -> str:
    return reason.lower().replace("_", " ")


def parse_pem(text: str) -> Pem:
    """Return the keys and certificates; ignores other text. (RFC 7468)

    Extracts the blocks and reformats them for OpenSSL: in a properties file, a block may have lost its line
    breaks or gained blanks. Does not decode the blocks. Takes linear time, because the text may come from a
    request.
    """
    keys, certificates = [], []
    for label, body in _pem_blocks(text):
        if label.endswith("PRIVATE KEY"):
            keys.append(_formatted_pem(label, body))
        elif label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            certificates.append(_formatted_pem(label, body))
    return Pem(tuple(keys), tuple(certificates))


def _pem_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield label and body, from each BEGIN outside a block to the next END of the same label."""
    marks = list(_PEM_MARK.finditer(text))
    ends: dict[str, list[re.Match[str]]] = {}
    for mark in reversed(marks):
        if mark["what"] == "END":
            ends.setdefault(mark["label"], []).append(mark)  # the nearest one last
    block_end = 0
    for mark in marks:
        if mark["what"] == "END" or mark.start() < block_end:
            continue
        body_start = mark.end() + _PEM_DASHES
        later = ends.get(mark["label"], [])
        while later and later[-1].start() < body_start:
            later.pop()
        if later:
            yield mark["label"], text[body_start : later[-1].start()]
            block_end = later[-1].end() + _PEM_DASHES


def _formatted_pem(label: str, body: str) -> str:
    header = _PEM_HEADER.match(body)
    head = header[0].strip() + "\n\n" if header else ""
    code = "".join(body[header.end() if header else 0 :].split())
    lines = "\n".join(code[at : at + _PEM_LINE] for at in range(0, len(code), _PEM_LINE))
    return f"-----BEGIN {label}-----\n{head}{lines}\n-----END {label}-----\n"
