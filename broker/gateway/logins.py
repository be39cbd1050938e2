"""Logins that the upstream broker decides: the gateway learns the principal, and applies its own limits.

With `gateway.authentication=upstream`, SASL messages are forwarded, and observed both ways. A name that a
client claims counts once the broker has accepted the login that claimed it. Passwords and tokens are not
kept. Names are read as Kafka's brokers read them, so that no spelling of a message gives a client another
name here than there:

    PLAIN          the user name
    SCRAM-SHA-*    the user name of the first message; the server's signature accepts it
    OAUTHBEARER    the authorization id, or else the claim `sub` of a JSON Web Token

Other mechanisms, delegation tokens and opaque bearer tokens hide the name: the principal is then ANONYMOUS
and `AcceptedLogin.unknown_because` says why. A name that the upstream broker derives differently is not known
either (`principal.builder.class`, `sasl.oauthbearer.sub.claim.name`).

The limits of connections per user apply once the principal is known, and a connection beyond them gets a
failed login in place of the upstream broker's response. Damaged frames raise ProtocolViolation. (Kafka:
SaslServerAuthenticator, PlainSaslServer, ScramSaslServer, OAuthBearerSaslServer; KIP-368 for sessions)
"""

import binascii
import logging
from base64 import urlsafe_b64decode
from collections import deque
from typing import Any, Final

import msgspec

from broker.api.security.client_security import Logins, refusal_message
from broker.common.errors import ErrorCode, ProtocolViolation
from broker.common.principal import ANONYMOUS, is_plain
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import decoded, encoded
from broker.gateway.routes import ForwardedRequest
from broker.network.authentication import FailedLogins, log_authenticated
from broker.network.clock import TrioClock
from broker.network.selector import Selector
from broker.protocol.api_key import ApiKey, request_header_version
from broker.protocol.client_id import client_id_and_body
from broker.protocol.codec import decode_request
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from broker.protocol.schema import Buffer

logger = logging.getLogger(__name__)

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"

SERVER_SIGNATURE: Final = b"v="
"""How the last message of a SCRAM server begins. (RFC 5802)"""


class AcceptedLogin(msgspec.Struct, frozen=True):
    """A login that the upstream broker has accepted.

    `session_lifetime_ms` is 0 if the session does not end. `unknown_because` is a reason for the log if the
    gateway cannot know the principal, which is then ANONYMOUS.
    """

    principal: str
    mechanism: str
    session_lifetime_ms: int = 0
    unknown_because: str | None = None


class _Claim(msgspec.Struct, frozen=True):
    """The name in a client's message, if it has one; the second message of SCRAM has none."""

    name: str | None = None
    unknown_because: str | None = None


class SaslObserver:
    """The logins of one connection. The requests and the responses must come in their order."""

    __slots__ = ("_agreed", "_claim", "_offered", "_unanswered")

    def __init__(self) -> None:
        self._offered = ""
        self._agreed = ""
        self._claim = _Claim()
        self._unanswered: deque[tuple[str, _Claim]] = deque()

    def request(self, frame: Buffer) -> None:
        """Observe a SaslHandshake or SaslAuthenticate request, without its size. Raises ProtocolViolation."""
        if len(frame) < 10:
            raise ProtocolViolation(f"a request of {len(frame)} bytes")
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        _, body = client_id_and_body(frame, request_header_version(key, version) == 2)
        message: Any = decode_request(key, version)(frame, body)
        claim = _Claim()
        if key == ApiKey.SASL_HANDSHAKE:
            self._offered = message.mechanism
        else:
            claim = _claim(self._offered, bytes(message.auth_bytes))
        self._unanswered.append((self._offered, claim))

    def response(self, api_key: int, version: int, frame: Buffer) -> AcceptedLogin | None:
        """Observe the response, without its size, to the oldest request without one.

        Return the login if it is complete now. Raises ProtocolViolation.
        """
        mechanism, claim = self._unanswered.popleft()
        message, _ = decoded(frame, api_key, version)
        if api_key == ApiKey.SASL_HANDSHAKE:
            self._agreed = mechanism if message.error_code == ErrorCode.NONE else ""
            self._claim = _Claim()
            return None
        if message.error_code != ErrorCode.NONE or mechanism != self._agreed:
            self._claim = _Claim()
            return None
        if claim != _Claim():
            self._claim = claim
        if not _is_complete(mechanism, bytes(message.auth_bytes)):
            return None
        accepted, self._claim = self._claim, _Claim()
        lifetime_ms = message.session_lifetime_ms
        if accepted.name:
            return AcceptedLogin(accepted.name, mechanism, lifetime_ms)
        return AcceptedLogin(
            ANONYMOUS, mechanism, lifetime_ms, accepted.unknown_because or "it claimed no name"
        )


def _is_complete(mechanism: str, reply: bytes) -> bool:
    """Return whether the server's reply, which is no error, ends the login."""
    if mechanism in SCRAM:
        return reply.startswith(SERVER_SIGNATURE)
    if mechanism in (OAUTHBEARER, GSSAPI):
        # A bearer token that the server refuses is first answered with the reason, as a challenge.
        return not reply
    return True  # PLAIN has one step, and of other mechanisms the steps are not known


def _claim(mechanism: str, message: bytes) -> _Claim:
    if mechanism == PLAIN:
        return _plain_claim(message)
    if mechanism in SCRAM:
        return _scram_claim(message)
    if mechanism == OAUTHBEARER:
        return _bearer_claim(message)
    return _Claim(unknown_because=f"{mechanism} hides it")


def _plain_claim(message: bytes) -> _Claim:
    # Malformed UTF-8 is replaced, as by Java.
    parts = message.decode(errors="replace").split("\0", 3)
    return _Claim(parts[1]) if len(parts) == 3 else _Claim(unknown_because="its message is malformed")


def _scram_claim(message: bytes) -> _Claim:
    """`n,[a=<authorization id>],[m=<reserved>,]n=<name>,r=<nonce>[,<extension>...]`"""
    fields = message.decode(errors="replace").split(",")
    if fields[0] not in ("n", "y"):
        return _Claim()  # the second message
    attributes = fields[3:] if len(fields) > 2 and fields[2].startswith("m=") else fields[2:]
    if not attributes or not attributes[0].startswith("n="):
        return _Claim(unknown_because="its message is malformed")
    extensions = dict(each.split("=", 1) for each in attributes[1:] if "=" in each)
    if extensions.get("tokenauth", "").lower() == "true":
        return _Claim(unknown_because="it is that of the owner of a delegation token")
    return _Claim(attributes[0][2:].replace("=2C", ",").replace("=3D", "="))


def _bearer_claim(message: bytes) -> _Claim:
    """`n,[a=<authorization id>],\\x01auth=Bearer <token>\\x01[<key>=<value>\\x01...]\\x01` (RFC 7628)"""
    header, _, rest = message.decode(errors="replace").partition("\1")
    fields = header.split(",")
    if len(fields) > 1 and fields[1].startswith("a=") and len(fields[1]) > 2:
        # The broker compares it, as it is, with the principal's name.
        return _Claim(fields[1][2:])
    values = [each[5:] for each in rest.split("\1") if each.startswith("auth=")]
    name = _subject(values[-1].split(" ")[-1]) if values else None
    if not name:
        return _Claim(unknown_because="its token names no subject")
    # Kafka removes the spaces, so that the broker may know another user.
    return _Claim(name) if is_plain(name) else _Claim(unknown_because="its token's subject is not plain")


class _Claims(msgspec.Struct):
    sub: str | None = None


_CLAIMS: Final = msgspec.json.Decoder(_Claims)


def _subject(token: str) -> str | None:
    parts = token.split(".", 3)
    if len(parts) != 3:
        return None
    try:
        return _CLAIMS.decode(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).sub
    except (binascii.Error, ValueError, RecursionError):
        return None


class ForwardedLogins:
    """The logins of one processor's connections. `frame_limit` is the largest request after a login."""

    def __init__(
        self,
        selector: Selector,
        clock: TrioClock,
        logins: Logins,
        failed: FailedLogins,
        frame_limit: int,
    ) -> None:
        self._counts = selector.counts
        self._clock = clock
        self._logins = logins
        self._failed = failed
        self._frame_limit = frame_limit

    def request(self, channel: GatewayChannel, frame: memoryview) -> None:
        """Observe a SASL request. Raises ProtocolViolation."""
        if channel.login is None:
            channel.login = SaslObserver()
        channel.login.request(frame)

    def response(self, request: ForwardedRequest, frame: bytes) -> bytes | None:
        """Observe the response to a SASL request. Returns the response to send in its place, whole and with
        its size, or None. Raises ProtocolViolation.
        """
        channel, route = request.channel, request.route
        assert isinstance(channel, GatewayChannel) and channel.login is not None
        login = channel.login.response(route.api_key, route.version, frame)
        if login is None:
            if route.api_key == ApiKey.SASL_AUTHENTICATE and _is_failed(frame, route.version):
                self._counts.failed_logins += 1
            return None
        if channel.authenticated:
            self._counts.renewals += 1
            channel.principal = login.principal
            return None
        return self._enter(channel, request, login)

    def _enter(
        self, channel: GatewayChannel, request: ForwardedRequest, login: AcceptedLogin
    ) -> bytes | None:
        """Admit a connection that has logged in, or refuse it by the limits of its user."""
        refusal = self._logins.enter(channel, login.principal, self._clock.ms())
        if refusal is not None:
            self._counts.failed_logins += 1
            self._failed.add(channel)
            reply = SaslAuthenticateResponse(
                ErrorCode.SASL_AUTHENTICATION_FAILED, refusal_message(login.principal, refusal)
            )
            return encoded(reply, request.route.version, request.correlation_id)
        channel.principal = login.principal
        channel.sasl_mechanism = login.mechanism
        channel.authenticated = True
        channel.receive.limit = self._frame_limit
        self._counts.logins += 1
        if request.route.version == 0:
            self._counts.logins_without_reauth += 1
        log_authenticated(channel)
        if login.unknown_because is not None:
            logger.warning(
                "the principal of a login at the upstream broker is unknown: its quotas are ANONYMOUS's",
                extra={
                    "connection": channel.id,
                    "mechanism": login.mechanism,
                    "reason": login.unknown_because,
                },
            )
        return None


def _is_failed(frame: bytes, version: int) -> bool:
    """Return whether a SaslAuthenticate response, without its size, has an error code."""
    at = 4 if version < 2 else 5
    return frame[at : at + 2] != b"\0\0"
