"""Opens a connection to an upstream broker: TCP, then TLS, then the gateway's own login or that of a client's
principal. (Kafka: Selector, SslTransportLayer and SaslClientAuthenticator on the client's side)

The processor of the gateway opens one connection per client connection, `upstream.connection` those of the
gateway's own requests.
"""

import socket
from typing import Final

import msgspec
import trio

from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import FAILURES, FrameStream, as_upstream_error
from broker.gateway.upstream.login import FrameTalk, log_in
from broker.gateway.upstream.principals import Principals
from broker.gateway.upstream.security import UpstreamSecurity
from broker.gateway.upstream.tcp import open_tcp
from broker.network.connection.receive import EndOfStream
from broker.network.connection.tls_socket import TlsSocket
from broker.network.connection.transport import Transport
from broker.security.client_login import ClientCredentials

MAX_LOGIN_BYTES: Final = 65_536
"""The largest response; ours. It is read at once, and has a kilobyte usually."""


class UpstreamSocket(msgspec.Struct, frozen=True):
    """An open connection, from which nothing has been read that does not belong to its opening.

    `sock` does not block; `fd` is its descriptor for epoll. After a login, `session_lifetime_ms` is how long
    the broker accepts requests before it requires another one; 0: for ever (KIP-368). `credentials` are those
    of the login.
    """

    sock: Transport
    address: Address
    fd: int
    session_lifetime_ms: int = 0
    credentials: ClientCredentials | None = None


async def open_as(
    principal: str,
    address: Address,
    config: UpstreamConfig,
    security: UpstreamSecurity,
    principals: Principals,
) -> UpstreamSocket:
    """Connect to `address` with the credentials of a client's principal. Raises what `open_connection` and
    `principals` raise. If cancelled, no socket stays open.
    """
    while True:
        credentials = await principals.credentials(principal)
        try:
            return await open_connection(address, config, security, login=True, credentials=credentials)
        except UpstreamError as error:
            if error.reason is not Reason.CREDENTIALS:
                raise
            await principals.refused(principal, credentials, error)


async def open_connection(
    address: Address,
    config: UpstreamConfig,
    security: UpstreamSecurity,
    *,
    login: bool,
    credentials: ClientCredentials | None = None,
) -> UpstreamSocket:
    """Connect to `address`, whose name is resolved again; all its addresses are tried. With `login`, log in
    with `credentials`, by default the gateway's own, if the upstream listener has SASL; without, the client
    does that.

    Raises UpstreamError, after `upstream.socket.connection.setup.timeout.ms` at the latest. If cancelled, no
    socket stays open.
    """
    timeout_ms = config.connection_setup_timeout_ms
    try:
        with trio.fail_after(timeout_ms / 1_000):
            return await _open(address, config, security, login, credentials)
    except trio.TooSlowError:
        raise UpstreamError(
            Reason.TIMEOUT, f"{address}: the connection was not open within {timeout_ms} ms"
        ) from None


async def _open(
    address: Address,
    config: UpstreamConfig,
    security: UpstreamSecurity,
    login: bool,
    credentials: ClientCredentials | None,
) -> UpstreamSocket:
    plain = await open_tcp(address, security.names)
    fd = plain.fileno()
    sock: Transport = plain
    is_open = False
    try:
        if config.security_protocol.is_encrypted:
            sock = await _start_tls(plain, address, security)
        lifetime_ms = 0
        if login and config.security_protocol.has_login:
            credentials = credentials or security.credentials
            frames = FrameStream(sock, fd, MAX_LOGIN_BYTES)
            lifetime_ms = await log_in(FrameTalk(frames, config.client_id), address, credentials)
            if frames.has_buffered:
                text = f"{address}: the broker sent bytes that no request asked for"
                raise UpstreamError(Reason.PROTOCOL, text)
        is_open = True
        return UpstreamSocket(sock, address, fd, lifetime_ms, credentials)
    except FAILURES as error:
        raise as_upstream_error(address, error) from error
    finally:
        if not is_open:
            sock.close()
            plain.close()


async def _start_tls(sock: socket.socket, address: Address, security: UpstreamSecurity) -> TlsSocket:
    """Put TLS over the socket. Raises TlsError, UpstreamError, OSError."""
    fd = sock.fileno()
    context = security.context()
    tls = TlsSocket(
        sock, context, security.scratch, server_side=False, server_hostname=address.host.rstrip(".")
    )
    try:
        while not tls.handshake():
            if tls.is_blocked:
                await trio.lowlevel.wait_writable(fd)
            else:
                await trio.lowlevel.wait_readable(fd)
    except EndOfStream as error:
        raise UpstreamError(
            Reason.CLOSED, f"{address}: closed by the broker during the TLS handshake"
        ) from error
    while not tls.flush():
        await trio.lowlevel.wait_writable(fd)
    return tls
