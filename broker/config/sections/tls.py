"""TLS of the SSL and SASL_SSL listeners: keys, trust, versions. For broker.security.

`TlsConfig.of` returns a listener's own values (`listener.name.<name>.ssl.keystore.location`) laid over the
common ones. Reads no files; broker.security.tls validates them at start.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from broker.config.kinds import SECRET, TEXT, ConfigKind, ConfigType, choices_of, list_of, one_of
from broker.config.listeners import ListenerConfig
from broker.config.setting import LISTENER_PREFIX, ListenerSection, Setting, settings_of


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

    keystore_type: str = Setting("ssl.keystore.type", "PEM", _STORE_TYPE, listener_too=True).described(
        "The format of the key store.", kafka_default="JKS", why=_WHY_PEM
    )
    keystore_location: str = Setting(
        "ssl.keystore.location", "", TEXT, listener_too=True, dynamic=True, per_broker=True, null_default=True
    ).described(
        "A file with the private key and the certificate chain of the broker, its own certificate first; for "
        "one named `tls.key`, the chain may be in `tls.crt` beside it, as in a Kubernetes secret. "
        "It is reloaded when it changes; new connections use the new certificate."
    )
    keystore_certificate_chain: str = Setting(
        "ssl.keystore.certificate.chain",
        "",
        SECRET,
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    ).described("The certificate chain as PEM text, instead of a file.")
    keystore_key: str = Setting(
        "ssl.keystore.key", "", SECRET, listener_too=True, dynamic=True, per_broker=True, null_default=True
    ).described("The private key as PEM text, instead of a file.")
    key_password: str = Setting(
        "ssl.key.password", "", SECRET, listener_too=True, dynamic=True, per_broker=True, null_default=True
    ).described("The password that decrypts the private key.")
    keystore_password: str = Setting(
        "ssl.keystore.password", "", SECRET, listener_too=True, null_default=True
    ).described("Must be empty: a PEM file has no password, only its key has one (ssl.key.password).")
    truststore_type: str = Setting("ssl.truststore.type", "PEM", _STORE_TYPE, listener_too=True).described(
        "The format of the trust store.", kafka_default="JKS", why=_WHY_PEM
    )
    truststore_location: str = Setting(
        "ssl.truststore.location",
        "",
        TEXT,
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    ).described("A file with the CA certificates for client certificates. It is reloaded when it changes.")
    truststore_certificates: str = Setting(
        "ssl.truststore.certificates",
        "",
        SECRET,
        listener_too=True,
        dynamic=True,
        per_broker=True,
        null_default=True,
    ).described("The CA certificates as PEM text, instead of a file.")
    truststore_password: str = Setting(
        "ssl.truststore.password", "", SECRET, listener_too=True, null_default=True
    ).described("Must be empty: a PEM file of certificates has no password.")
    client_auth: str = Setting(
        "ssl.client.auth",
        "none",
        one_of("none", "requested", "required"),
        listener_too=True,
        dynamic=True,
        per_broker=True,
    ).described(
        "Whether clients present a certificate. On an SSL listener, its subject is the client's user, to "
        "which quotas apply. On SASL_SSL listeners, only the key with the listener's prefix applies."
    )
    enabled_protocols: tuple[str, ...] = Setting(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        choices_of("TLSv1.2", "TLSv1.3"),
        listener_too=True,
        dynamic=True,
        per_broker=True,
    ).described("The enabled versions of TLS.")
    protocol: str = Setting(
        "ssl.protocol",
        "TLSv1.3",
        one_of("TLS", "TLSv1.2", "TLSv1.3"),
        listener_too=True,
        dynamic=True,
        per_broker=True,
    ).described(
        "The newest enabled version, if ssl.enabled.protocols contains it; TLS means the newest available."
    )
    cipher_suites: tuple[str, ...] = Setting(
        "ssl.cipher.suites",
        (),
        list_of(TEXT.read, "a list of cipher suites, by their IANA names"),
        listener_too=True,
        dynamic=True,
        per_broker=True,
    ).described(
        "Enabled cipher suites; empty: OpenSSL's secure defaults. For TLS 1.3, list all suites or none."
    )
    principal_mapping_rules: str = Setting(
        "ssl.principal.mapping.rules", "DEFAULT", TEXT, listener_too=True
    ).described(
        "How the subject of a client's certificate maps to its user: `DEFAULT` uses it unchanged; "
        "`RULE:pattern/replacement/[LU]` applies if the pattern matches all of it; the first match wins."
    )
    store_allowed_directories: tuple[str, ...] = Setting(
        "ssl.store.allowed.directories", (), list_of(TEXT.read, "a list of folders"), ours=True
    ).described(
        "The folders, including subfolders, that `ssl.keystore.location` and `ssl.truststore.location` can "
        "point to in dynamic changes; empty: the folders of the stores that the configuration file names. "
        "The file itself is not restricted."
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
