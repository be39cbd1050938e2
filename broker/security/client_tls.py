"""Creates SSL contexts for connections to upstream brokers, from `upstream.ssl.*`.

Used by broker.gateway.upstream. A key or certificate that cannot be used raises ConfigError at startup; the
error names the key and never shows a secret. Independent of sockets.
"""

import ssl
from pathlib import Path
from typing import Final

from broker.common.errors import ConfigError
from broker.config.sections import UpstreamConfig
from broker.security.tls import VERSIONS, load_authorities, load_chain, read_store
from broker.security.watched_files import CHECK_EVERY_MS, stamps

KEYSTORE_KEY: Final = "upstream.ssl.keystore.location"
TRUSTSTORE_KEY: Final = "upstream.ssl.truststore.location"
CERTIFICATES_KEY: Final = "upstream.ssl.truststore.certificates"
PASSWORD_KEY: Final = "upstream.ssl.key.password"  # noqa: S105 - the name of a setting


class ClientCertificates:
    """The TLS state of upstream connections. `context` wraps the next ones."""

    def __init__(self, config: UpstreamConfig) -> None:
        """Raises ConfigError."""
        self._config = config
        self._files = [
            Path(name) for name in (config.client_keystore_location, config.ssl_truststore_location) if name
        ]
        self._seen = stamps(self._files)
        self._next_check_ms = 0
        self.context = client_context(config)

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
            self.context = client_context(self._config)


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
        text = read_store(KEYSTORE_KEY, name)
        load_chain(context, (KEYSTORE_KEY, name), text, PASSWORD_KEY, config.client_key_password)
    return context
