"""The client of a console's connection: its peer, or whom a balancer's PROXY header names.

Used by http.http_server for every accepted connection, before its limits and TLS. Of a connection without
balancers nothing is read. Refused headers are counted and logged, by the reason.
"""

import logging
from collections import Counter
from typing import Final, NamedTuple

import trio

from broker.common.proxy_headers import ProxyHeaders, is_in
from broker.common.proxy_protocol import HeaderError, HeaderRefusal
from broker.config.sections.console import ConsoleConfig
from webui.http.encryption import HANDSHAKE_S
from webui.http.request import RefusalLog

log = logging.getLogger(__name__)

MAX_OUTSTANDING: Final = 64
"""Connections whose header is outstanding, as many as there may be TLS handshakes."""


class ConnectionClient(NamedTuple):
    """`is_proxys`: the address is that of a proxy or a balancer, which others share."""

    address: str
    port: int
    is_proxys: bool = False


class ConnectionClients:
    """Finds the clients of all connections, and counts those that it refuses in `refused`, by the reason."""

    def __init__(self, settings: ConsoleConfig, refused: Counter[str]) -> None:
        self._refused = refused
        self._proxies = settings.forwarded_for_trusted_addresses
        self._headers: ProxyHeaders | None = None
        if settings.has_proxy_headers:
            refused.update(dict.fromkeys(HeaderRefusal, 0))
            self._headers = ProxyHeaders(
                settings.proxy_protocol_trusted_addresses,
                requires=settings.requires_proxy_headers,
                timeout_s=HANDSHAKE_S,
                most=MAX_OUTSTANDING,
            )
        self._logs = {
            reason: RefusalLog(log, f"console closed connections for their PROXY header: {reason}")
            for reason in HeaderRefusal
        }

    async def of(self, sock: trio.socket.SocketType) -> ConnectionClient | None:
        """Return the client of a new connection, or None if the caller has to close it. Raises OSError if the
        peer is gone.
        """
        host, port = sock.getpeername()[:2]
        client = ConnectionClient(host, port)
        if self._headers is not None:
            try:
                client = await self._of_header(self._headers, sock, client)
            except HeaderError as error:
                if error.reason is not None:
                    self._refused[error.reason] += 1
                    self._logs[error.reason].note(host)
                return None
        if self._proxies and is_in(self._proxies, client.address):
            return client._replace(is_proxys=True)
        return client

    async def _of_header(
        self, headers: ProxyHeaders, sock: trio.socket.SocketType, peer: ConnectionClient
    ) -> ConnectionClient:
        is_trusted = headers.trusts(peer.address)
        if headers.requires and not is_trusted:
            raise HeaderError(HeaderRefusal.UNTRUSTED)
        named = await headers.read(sock, is_trusted=is_trusted)
        return peer._replace(is_proxys=is_trusted) if named is None else ConnectionClient(*named)
