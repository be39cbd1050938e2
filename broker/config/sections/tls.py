"""TLS of the SSL and SASL_SSL listeners: keys, trust, versions. For broker.security.

One room for what all listeners share, and one for each listener with its own values laid over that
(`listener.name.<name>.ssl.keystore.location`), as `TlsConfig.of` gives it. Reads no file: what the values
name is checked by broker.security.tls, at the start.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from broker.config.kinds import SECRET, TEXT, ConfigType, Kind, choices_of, list_of, one_of
from broker.config.listeners import Listener
from broker.config.setting import LISTENER_PREFIX, ListenerSection, setting, settings_of


def _read_pem(text: str) -> str:
    if text.upper() != "PEM":
        raise ValueError("not a format that is read")
    return "PEM"


_STORE_TYPE: Final = Kind(
    ConfigType.STRING, "PEM; `keytool` and `openssl pkcs12` turn a JKS or PKCS12 store into it", _read_pem
)
MAX_STORE_BYTES: Final = 1_048_576
"""Of a keystore or truststore, be it a file or text; ours. Kafka reads whatever there is."""

ALLOWED_STORE: Final = (
    f"a PEM file: a regular file of at most {MAX_STORE_BYTES} bytes that the broker can read, in one of "
    "ssl.store.allowed.directories where it is set while the broker runs"
)
"""The same words for whatever is wrong with a location, which tell nothing of what lies there."""

_WHY_PEM: Final = "Java's own formats are not read."


@dataclass(frozen=True, slots=True)
class TlsConfig(ListenerSection):
    """`listener` is the one that this is for, in capitals; none for what they share."""

    keystore_type: str = setting(
        "ssl.keystore.type",
        "PEM",
        _STORE_TYPE,
        "The format of the key store.",
        listener_too=True,
        kafka_default="JKS",
        why=_WHY_PEM,
    )
    keystore_location: str = setting(
        "ssl.keystore.location",
        "",
        TEXT,
        "A file with the private key and the certificate chain of the broker, its own certificate first. "
        "It is read again when it changes: new connections get the new certificate.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    keystore_certificate_chain: str = setting(
        "ssl.keystore.certificate.chain",
        "",
        SECRET,
        "The certificate chain itself, as PEM, in place of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    keystore_key: str = setting(
        "ssl.keystore.key",
        "",
        SECRET,
        "The private key itself, as PEM, in place of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    key_password: str = setting(
        "ssl.key.password",
        "",
        SECRET,
        "What the private key is encrypted with.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    keystore_password: str = setting(
        "ssl.keystore.password",
        "",
        SECRET,
        "Nothing: a PEM file has no password of its own, only its key has (ssl.key.password).",
        listener_too=True,
    )
    truststore_type: str = setting(
        "ssl.truststore.type",
        "PEM",
        _STORE_TYPE,
        "The format of the trust store.",
        listener_too=True,
        kafka_default="JKS",
        why=_WHY_PEM,
    )
    truststore_location: str = setting(
        "ssl.truststore.location",
        "",
        TEXT,
        "A file with the certificates that vouch for clients. It is read again when it changes.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    truststore_certificates: str = setting(
        "ssl.truststore.certificates",
        "",
        SECRET,
        "These certificates themselves, as PEM, in place of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    truststore_password: str = setting(
        "ssl.truststore.password",
        "",
        SECRET,
        "Nothing: a PEM file of certificates has no password.",
        listener_too=True,
    )
    client_auth: str = setting(
        "ssl.client.auth",
        "none",
        one_of("none", "requested", "required"),
        "Whether clients show a certificate. On an SSL listener its subject is the client's user, to which "
        "quotas apply. For SASL_SSL listeners only the form with the listener's name counts.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        choices_of("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    protocol: str = setting(
        "ssl.protocol",
        "TLSv1.3",
        one_of("TLS", "TLSv1.2", "TLSv1.3"),
        "The newest version that is spoken, if ssl.enabled.protocols has it; TLS is the newest there is.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        list_of(TEXT.read, "a list of cipher suites, by their IANA names"),
        "Cipher suites that may be used; nothing: what OpenSSL takes for safe. Those of TLS 1.3 are all "
        "there or none of them.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        TEXT,
        "How the subject of a client's certificate becomes its user: `DEFAULT` as it is, "
        "`RULE:pattern/replacement/[LU]` where the pattern fits all of it; the first that fits wins.",
        listener_too=True,
    )
    store_allowed_directories: tuple[str, ...] = setting(
        "ssl.store.allowed.directories",
        (),
        list_of(TEXT.read, "folders, separated by commas"),
        "The folders, with those below, in which a client may set `ssl.keystore.location` and "
        "`ssl.truststore.location` to a file while the broker runs; nothing: those in which the stores lie "
        "that this file names. What this file says itself is not restricted.",
        ours=True,
    )
    listener: str = ""

    def of(self, listener: Listener) -> Self:
        """The settings of one listener. For SASL_SSL, `ssl.client.auth` counts only where it is set for the
        listener, as in Kafka.
        """
        own = {field for name, field, _ in self.overrides if name == listener.name}
        config = replace(self.for_listener(listener.name), listener=listener.name)
        if listener.protocol.has_login and "client_auth" not in own:
            return replace(config, client_auth="none")
        return config

    def key(self, key: str) -> str:
        """How the value of `key` was spelled, for an error."""
        own = {field for name, field, _ in self.overrides if name == self.listener}
        is_own = any(setting.key == key and field.name in own for field, setting in settings_of(type(self)))
        return f"{LISTENER_PREFIX}{self.listener.lower()}.{key}" if is_own else key
