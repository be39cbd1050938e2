"""The gateway's logins at upstream brokers. (Kafka: SaslClientAuthenticator on the client's side)

`connect` logs in on each connection that it opens, and `renewals` again on those that clients use. A login
sends SaslHandshake 1 and SaslAuthenticate 1, which every broker since Kafka 2.2 has, so that it needs no
ApiVersions. (KIP-43, KIP-152, KIP-368)
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import trio

from broker.common.errors import ApiError, ErrorCode, ProtocolViolation
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import FAILURES, FrameStream, as_upstream_error
from broker.gateway.upstream.principals import Principals
from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.security.client_login import ClientCredentials

logger = logging.getLogger(__name__)

_DERIVING: Final = trio.CapacityLimiter(1)
"""Keys are derived one after the other: of thousands of users that log in at once, none takes the processor
from all others.
"""

MAX_OFFERED: Final = 200
"""Characters of the broker's mechanisms that an error names."""

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1


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
            raise UpstreamError(Reason.CREDENTIALS, f"{address}: {_words(reply)}")
        response = bytes(reply.auth_bytes)
        try:
            if login.derives(response):
                message = await trio.to_thread.run_sync(login.answer, response, limiter=_DERIVING)
            else:
                message = login.answer(response)
        except ApiError as error:
            raise UpstreamError(Reason.CREDENTIALS, f"{address}: {error.message}") from error
        lifetime_ms = reply.session_lifetime_ms
    return lifetime_ms


def _words(reply: SaslAuthenticateResponse) -> str:
    if reply.error_message:
        return reply.error_message
    try:
        return ErrorCode(reply.error_code).name
    except ValueError:
        return f"error {reply.error_code}"


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


class LoginRenewal:
    """Logs in again on the connections of all clients. `principals` has the newest credentials, `client_id`
    is that of the gateway's requests. `on_failure` is called with the address of a node that does not accept
    a login, so that its condition is found out.
    """

    def __init__(
        self, config: UpstreamConfig, principals: Principals, on_failure: Callable[[Address], None]
    ) -> None:
        self.client_id = config.client_id
        self._timeout_ms = config.connection_setup_timeout_ms
        self._principals = principals
        self._on_failure = on_failure
        self._failing: set[Address] = set()

    async def renew(self, talk: Talk, address: Address, before: ClientCredentials, principal: str) -> int:
        """Log in with the newest credentials of a client's principal on a connection that has logged in with
        `before`. Returns how many milliseconds the login lasts; 0: for ever.

        Raises UpstreamError, `upstream.socket.connection.setup.timeout.ms` after the credentials are there at
        the latest; then the connection must close. A broker refuses another user or mechanism than before, so
        it is not asked: a new connection has them.
        """
        credentials = await self._principals.credentials(principal)
        if credentials is None or not credentials.is_same_user(before):
            raise UpstreamError(Reason.CLOSED, f"{address}: the upstream user has changed")
        failure: UpstreamError | None = None
        try:
            with trio.fail_after(self._timeout_ms / 1_000):
                lifetime_ms = await log_in(talk, address, credentials)
        except UpstreamError as error:
            failure = error
        except trio.TooSlowError:
            text = f"{address}: the broker did not answer the login within {self._timeout_ms} ms"
            failure = UpstreamError(Reason.TIMEOUT, text)
        except FAILURES as error:
            failure = as_upstream_error(address, error)
            failure.__cause__ = error
        if failure is None:
            self._note(address, None)
            return lifetime_ms
        if failure.reason is Reason.CREDENTIALS:
            await self._refused(address, principal, credentials, failure)
        self._note(address, failure)
        raise failure

    async def _refused(
        self, address: Address, principal: str, credentials: ClientCredentials, error: UpstreamError
    ) -> None:
        """Find out what a refused login means. Raises UpstreamError if it says nothing about the node."""
        try:
            await self._principals.refused(principal, credentials, error)
        except UpstreamError as known:
            if known.reason is Reason.PRINCIPAL:
                raise
        else:
            raise UpstreamError(Reason.CLOSED, f"{address}: the login has to begin again") from error

    def _note(self, address: Address, error: UpstreamError | None) -> None:
        """Log the first failure at a node, and the end of failing. A connection that closes is none."""
        if error is None:
            if address in self._failing:
                self._failing.remove(address)
                logger.info("logins at an upstream node are renewed again", extra={"address": str(address)})
            return
        if error.reason is Reason.CLOSED:
            return
        self._on_failure(address)
        if address not in self._failing:
            self._failing.add(address)
            logger.warning(
                "cannot renew the gateway's login at an upstream node: connections of clients close",
                extra={"address": str(address), "reason": str(error)},
            )
