"""The SASL messages of the gateway's own login. (KIP-43, KIP-152, KIP-368; Kafka: SaslClientAuthenticator)

Sends SaslHandshake 1 and SaslAuthenticate 1, which every broker since Kafka 2.2 has, so that a login needs no
ApiVersions. `connect` logs in on a new connection, `gateway.renewals` again on one that clients use.
"""

from typing import Any, Final, Protocol

from broker.common.errors import ApiError, ErrorCode, ProtocolViolation
from broker.config.listeners import Address
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import FrameStream
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


class Talk(Protocol):
    """Sends one request after the other and waits for each response."""

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and return its response. Raises UpstreamError, and one of `connect.FAILURES`."""


async def log_in(talk: Talk, address: Address, credentials: ClientCredentials | None) -> int:
    """Log in. Returns how many milliseconds the login lasts; 0: for ever.

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
        try:
            message = login.answer(bytes(reply.auth_bytes))
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
