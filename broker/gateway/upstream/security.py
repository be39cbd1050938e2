"""TLS and the gateway's credentials for upstream connections, from `upstream.ssl.*` and `upstream.sasl.*`.

A key or certificate that cannot be used raises ConfigError at startup; the error names the key and never
shows a secret.
"""

import logging
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.errors import ConfigError
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.tcp import HostNames
from broker.network.connection.tls_socket import CIPHERTEXT_BYTES
from broker.security.client_login import ClientCredentials
from broker.security.tls import (
    VERSIONS,
    WatchedContext,
    key_store_files,
    load_authorities,
    load_chain,
    read_key_store,
    read_store,
)
from broker.security.watched_files import CHECK_EVERY_MS, read_setting, stamps

logger = logging.getLogger(__name__)

JAAS_KEY: Final = "upstream.sasl.jaas.config"
LOCATION_KEY: Final = "upstream.sasl.jaas.config.location"

KEYSTORE_KEY: Final = "upstream.ssl.keystore.location"
TRUSTSTORE_KEY: Final = "upstream.ssl.truststore.location"
CERTIFICATES_KEY: Final = "upstream.ssl.truststore.certificates"
PASSWORD_KEY: Final = "upstream.ssl.key.password"  # noqa: S105 - the name of a setting

MAX_FILE_BYTES: Final = 65_536
"""Of a file with credentials, which has a line."""


class UpstreamSecurity:
    """`credentials` are the gateway's own, None if there are none. All upstream connections share `scratch`,
    for what they read from the kernel, and `names`.
    """

    def __init__(self, config: UpstreamConfig, clock: Clock) -> None:
        """Raises ConfigError for keys, certificates and credentials that cannot be used."""
        self._clock = clock
        self._certificates = ClientCertificates(config) if config.security_protocol.is_encrypted else None
        self.scratch = memoryview(bytearray(CIPHERTEXT_BYTES))
        self.names = HostNames()
        self.configure(config)

    def configure(self, config: UpstreamConfig) -> None:
        """Log in with these credentials from now on. Raises ConfigError."""
        seen = stamps(_files(config))
        self.credentials = credentials_of(config)
        self._config = config
        self._seen = seen

    async def follow_file(self, changed: Callable[[], None]) -> None:
        """Read the file with credentials again whenever it changes, and call `changed`, until cancelled. A
        file that cannot be used is logged once per change, and the previous credentials stay.
        """
        while True:
            await trio.sleep(CHECK_EVERY_MS / 1_000)
            seen = stamps(_files(self._config))
            if seen == self._seen:
                continue
            self._seen = seen
            try:
                self.credentials = credentials_of(self._config)
            except ConfigError as error:
                logger.warning("cannot use the new upstream credentials", extra={"reason": str(error)})
                continue
            logger.info("upstream credentials read again", extra={"file": self._config.sasl_jaas_location})
            changed()

    def context(self) -> ssl.SSLContext:
        """Return the context of the next TLS connection, made of the files as they are now.

        Files that cannot be used are logged once per change, and the previous context stays.
        """
        certificates = self._certificates
        assert certificates is not None, "the upstream listener has no TLS"
        try:
            certificates.renew(self._clock.ms())
        except ConfigError as error:
            logger.warning("cannot use the new upstream certificates", extra={"reason": str(error)})
        return certificates.context


def credentials_of(config: UpstreamConfig) -> ClientCredentials | None:
    """Return the gateway's own credentials, None if there are none or the listener has no login. Raises
    ConfigError.
    """
    if not config.security_protocol.has_login:
        return None
    name, text, key = config.sasl_jaas_location, config.sasl_jaas_config, JAAS_KEY
    if name and text:
        raise ConfigError(LOCATION_KEY, name, f"not together with {JAAS_KEY}")
    if name:
        text, key = _read(name), LOCATION_KEY
    return ClientCredentials.from_jaas(key, text, config.sasl_mechanism) if text else None


def check_credentials(config: UpstreamConfig) -> None:
    """Raise ConfigError for credentials that cannot be used."""
    credentials_of(config)


def _files(config: UpstreamConfig) -> list[Path]:
    name = config.sasl_jaas_location
    return [Path(name)] if name and config.security_protocol.has_login else []


def _read(name: str) -> str:
    """Return the content of the file with credentials. Raises ConfigError."""
    text = read_setting(LOCATION_KEY, name, MAX_FILE_BYTES, "utf-8", "not UTF-8").strip()
    if not text:
        raise ConfigError(LOCATION_KEY, name, "a file with the login module, the user name and the password")
    return text


class ClientCertificates(WatchedContext):
    """The TLS state of upstream connections."""

    def __init__(self, config: UpstreamConfig) -> None:
        """Raises ConfigError."""
        super().__init__()
        files = *key_store_files(config.client_keystore_location), config.ssl_truststore_location
        self.use(files, partial(client_context, config))


def client_context(config: UpstreamConfig) -> ssl.SSLContext:
    """Create the context from the files. It requires a certificate from a trusted authority, and one that
    names the host unless `upstream.ssl.endpoint.identification.algorithm` is empty. Raises ConfigError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(config.ssl_endpoint_identification)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    enabled = sorted(config.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = VERSIONS[enabled[0]], VERSIONS[enabled[-1]]
    name, text = config.ssl_truststore_location, config.ssl_truststore_certificates
    if name and text:
        raise ConfigError(TRUSTSTORE_KEY, name, f"not together with {CERTIFICATES_KEY}")
    if name:
        load_authorities(context, (TRUSTSTORE_KEY, name), read_store(TRUSTSTORE_KEY, name))
    elif text:
        load_authorities(context, (CERTIFICATES_KEY, "(hidden)"), text)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if name := config.client_keystore_location:
        text = read_key_store(KEYSTORE_KEY, name)
        load_chain(context, (KEYSTORE_KEY, name), text, PASSWORD_KEY, config.client_key_password)
    return context
