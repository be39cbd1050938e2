"""Opens a connection to an upstream broker: TCP, then TLS, then the gateway's own login. (Kafka: Selector,
SslTransportLayer and SaslClientAuthenticator on the client's side)

The processor of the gateway opens one connection per client connection, `upstream.connection` those of the
gateway's own requests. `gateway.renewals` logs in again on those that clients use.

A login sends SaslHandshake 1 and SaslAuthenticate 1, which every broker since Kafka 2.2 has, so that it needs
no ApiVersions. (KIP-43, KIP-152, KIP-368)
"""

import socket
from typing import Any, Final, Protocol

import msgspec
import trio

from broker.common.errors import ApiError, ProtocolViolation
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.errors import Reason, UpstreamError, name_of
from broker.gateway.upstream.frames import FrameStream
from broker.gateway.upstream.security import UpstreamSecurity
from broker.gateway.upstream.tcp import open_tcp
from broker.network.connection.receive import EndOfStream
from broker.network.connection.tls_socket import TlsError, TlsSocket
from broker.network.connection.transport import Transport
from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.security.client_login import ClientCredentials

MAX_LOGIN_BYTES: Final = 65_536
"""The largest response; ours. It is read at once, and has a kilobyte usually."""

MAX_OFFERED: Final = 200
"""Characters of the broker's mechanisms that an error names."""

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1


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


async def open_connection(
    address: Address, config: UpstreamConfig, security: UpstreamSecurity, *, login: bool
) -> UpstreamSocket:
    """Connect to `address`, whose name is resolved again; all its addresses are tried. With `login`, log in
    with the gateway's own credentials if the upstream listener has SASL; without, the client does that.

    Raises UpstreamError, after `upstream.socket.connection.setup.timeout.ms` at the latest. If cancelled, no
    socket stays open.
    """
    timeout_ms = config.connection_setup_timeout_ms
    try:
        with trio.fail_after(timeout_ms / 1_000):
            return await _open(address, config, security, login)
    except trio.TooSlowError:
        raise UpstreamError(
            Reason.TIMEOUT, f"{address}: the connection was not open within {timeout_ms} ms"
        ) from None


async def _open(
    address: Address, config: UpstreamConfig, security: UpstreamSecurity, login: bool
) -> UpstreamSocket:
    plain = await open_tcp(address, security.names)
    fd = plain.fileno()
    sock: Transport = plain
    is_open = False
    try:
        if config.security_protocol.is_encrypted:
            sock = await _start_tls(plain, address, security)
        lifetime_ms = 0
        credentials = None
        if login and config.security_protocol.has_login:
            credentials = security.credentials
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


FAILURES: Final = (OSError, EndOfStream, ProtocolViolation)
"""How an open connection fails."""


def as_upstream_error(address: Address, error: Exception) -> UpstreamError:
    """Return what one of FAILURES means."""
    match error:
        case TlsError():
            return UpstreamError(Reason.TLS, f"{address}: {error}")
        case EndOfStream():
            return UpstreamError(Reason.CLOSED, f"{address}: closed by the broker")
        case OSError():
            return UpstreamError(Reason.CLOSED, f"{address}: {error.strerror or error}")
    return UpstreamError(Reason.PROTOCOL, f"{address}: {error}")


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


class Talk(Protocol):
    """Sends one request after the other and waits for each response."""

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and return its response. Raises UpstreamError, and one of FAILURES."""


async def log_in(talk: Talk, address: Address, credentials: ClientCredentials | None) -> int:
    """Log in with SASL. Returns how many milliseconds the login lasts; 0: for ever.

    Raises UpstreamError CREDENTIALS, and what `talk` raises.
    """
    if credentials is None:
        raise UpstreamError(
            Reason.CREDENTIALS, f"{address}: the broker requires a login; set upstream.sasl.jaas.config"
        )
    shaken: SaslHandshakeResponse = await talk.ask(
        SaslHandshakeRequest(credentials.mechanism), HANDSHAKE_VERSION
    )
    if shaken.error_code:
        offered = ", ".join(shaken.mechanisms)[:MAX_OFFERED] or "none"
        raise UpstreamError(
            Reason.CREDENTIALS,
            f"{address}: the broker does not accept {credentials.mechanism}; it accepts {offered}",
        )
    login = credentials.login()
    message: bytes | None = login.first()
    lifetime_ms = 0
    while message is not None:
        reply: SaslAuthenticateResponse = await talk.ask(
            SaslAuthenticateRequest(message), AUTHENTICATE_VERSION
        )
        if reply.error_code:
            raise UpstreamError(
                Reason.CREDENTIALS, f"{address}: {reply.error_message or name_of(reply.error_code)}"
            )
        try:
            message = login.answer(bytes(reply.auth_bytes))
        except ApiError as error:
            raise UpstreamError(Reason.CREDENTIALS, f"{address}: {error.message}") from error
        lifetime_ms = reply.session_lifetime_ms
    return lifetime_ms


class FrameTalk:
    """Requests on a connection that has no other user."""

    def __init__(self, frames: FrameStream, client_id: str) -> None:
        self._frames = frames
        self._client_id = client_id
        self._correlation_id = 0

    async def ask(self, message: Any, version: int) -> Any:
        self._correlation_id += 1
        key = message.API_KEY
        parts = codec.encode_request(key, version)(message, self._correlation_id, self._client_id)
        await self._frames.send(b"".join(parts))  # type: ignore[arg-type] # without records, all are bytes
        frame = await self._frames.receive()
        answered, at = codec.parse_response_header(frame, response_header_version(key, version))
        if answered != self._correlation_id:
            raise ProtocolViolation(f"correlation id {answered}, expected {self._correlation_id}")
        return codec.decode_response(key, version)(frame, at)
