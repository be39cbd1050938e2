"""TLS of the SSL and SASL_SSL listeners: keys, trust, versions. For broker.security.

`TlsConfig.of` returns a listener's own values (`listener.name.<name>.ssl.keystore.location`) laid over the
common ones. Reads no files; broker.security.tls validates them at start.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from broker.config.kinds import SECRET, TEXT, ConfigKind, ConfigType, choices_of, list_of, one_of
from broker.config.listeners import ListenerConfig
from broker.config.setting import LISTENER_PREFIX, ListenerSection, setting, settings_of


def _read_pem(text: str) -> str:
    if text.upper() != "PEM":
        raise ValueError("not a format that is read")
    return "PEM"


_STORE_TYPE: Final = ConfigKind(
    ConfigType.STRING, "PEM; `keytool` and `openssl pkcs12` convert a JKS or PKCS12 store", _read_pem
)
MAX_STORE_BYTES: Final = 1_048_576
"""The largest keystore or truststore, as file or text; ours. Kafka has no limit."""

ALLOWED_STORE: Final = (
    f"a PEM file: a regular file of at most {MAX_STORE_BYTES} bytes that the broker can read, in one of "
    "ssl.store.allowed.directories if set while the broker runs"
)
"""The same message for all errors of a location, so that it reveals nothing about the file system."""

_WHY_PEM: Final = "Java's own formats are not supported."


@dataclass(frozen=True, slots=True)
class TlsConfig(ListenerSection):
    """`listener` is the listener of these settings, in upper case; empty for the common ones."""

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
        "It is reloaded when it changes; new connections use the new certificate.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    keystore_certificate_chain: str = setting(
        "ssl.keystore.certificate.chain",
        "",
        SECRET,
        "The certificate chain as PEM text, instead of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    keystore_key: str = setting(
        "ssl.keystore.key",
        "",
        SECRET,
        "The private key as PEM text, instead of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    key_password: str = setting(
        "ssl.key.password",
        "",
        SECRET,
        "The password that decrypts the private key.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    keystore_password: str = setting(
        "ssl.keystore.password",
        "",
        SECRET,
        "Must be empty: a PEM file has no password, only its key has one (ssl.key.password).",
        listener_too=True,
        null_default=True,
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
        "A file with the CA certificates for client certificates. It is reloaded when it changes.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    truststore_certificates: str = setting(
        "ssl.truststore.certificates",
        "",
        SECRET,
        "The CA certificates as PEM text, instead of a file.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    )
    truststore_password: str = setting(
        "ssl.truststore.password",
        "",
        SECRET,
        "Must be empty: a PEM file of certificates has no password.",
        listener_too=True,
        null_default=True,
    )
    client_auth: str = setting(
        "ssl.client.auth",
        "none",
        one_of("none", "requested", "required"),
        "Whether clients present a certificate. On an SSL listener, its subject is the client's user, to "
        "which quotas apply. On SASL_SSL listeners, only the key with the listener's prefix applies.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        choices_of("TLSv1.2", "TLSv1.3"),
        "The enabled versions of TLS.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    protocol: str = setting(
        "ssl.protocol",
        "TLSv1.3",
        one_of("TLS", "TLSv1.2", "TLSv1.3"),
        "The newest enabled version, if ssl.enabled.protocols contains it; TLS means the newest available.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        (),
        list_of(TEXT.read, "a list of cipher suites, by their IANA names"),
        "Enabled cipher suites; empty: OpenSSL's secure defaults. For TLS 1.3, list all suites or none.",
        listener_too=True,
        dynamic=True,
        per_broker=True,
    )
    principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        TEXT,
        "How the subject of a client's certificate maps to its user: `DEFAULT` uses it unchanged; "
        "`RULE:pattern/replacement/[LU]` applies if the pattern matches all of it; the first match wins.",
        listener_too=True,
    )
    store_allowed_directories: tuple[str, ...] = setting(
        "ssl.store.allowed.directories",
        (),
        list_of(TEXT.read, "a list of folders"),
        "The folders, including subfolders, that `ssl.keystore.location` and `ssl.truststore.location` can "
        "point to in dynamic changes; empty: the folders of the stores that the configuration file names. "
        "The file itself is not restricted.",
        ours=True,
    )
    listener: str = ""

    def of(self, listener: ListenerConfig) -> Self:
        """Return the settings of one listener. For SASL_SSL, `ssl.client.auth` applies only if it is set for
        the listener, as in Kafka.
        """
        own = {field for name, field, _ in self.overrides if name == listener.name}
        config = replace(self.for_listener(listener.name), listener=listener.name)
        if listener.protocol.has_login and "client_auth" not in own:
            return replace(config, client_auth="none")
        return config

    def key(self, key: str) -> str:
        """Return the full name of `key`, for an error."""
        own = {field for name, field, _ in self.overrides if name == self.listener}
        is_own = any(setting.key == key and field.name in own for field, setting in settings_of(type(self)))
        return f"{LISTENER_PREFIX}{self.listener.lower()}.{key}" if is_own else key
