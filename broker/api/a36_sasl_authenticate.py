"""SaslAuthenticate: one step of a login.

Versions 0-2. PLAIN takes one step, SCRAM two. Every failed login gets SASL_AUTHENTICATION_FAILED and its
connection is closed after a delay; this includes users with too many connections, because all clients display
the message of this code. Without a preceding handshake, or after a login, the response is ILLEGAL_SASL_STATE.
Re-authentication (KIP-368) needs another handshake, on a listener whose logins expire, and may change neither
the principal nor the mechanism. Kafka closes the connection without a response if the mechanism differs; here
the client gets the error, and the connection is closed after the same delay.
"""

from functools import partial
from typing import Final

from broker.api.client_security import may_log_in, refusal_message
from broker.api.context import Connection, RequestContext
from broker.api.outcome import DELAYED, Login, Outcome, Response
from broker.api.registry import api
from broker.api.services import LoginServices
from broker.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.quotas.user_connections import TooFastOfUser, UserRefusal
from broker.security import plain
from broker.security.scram import MECHANISMS, ScramLogin
from broker.security.session import Session

LOGGED_IN: Final = "SaslAuthenticate request received after successful authentication"
NO_HANDSHAKE: Final = "SaslAuthenticate request received before SaslHandshake"


@api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), services=LoginServices, before_login=True)
def handle(message: SaslAuthenticateRequest, context: RequestContext, services: LoginServices) -> Outcome:
    connection = context.connection
    if not may_log_in(connection):
        return Response(SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, LOGGED_IN))
    if connection.sasl_mechanism is None:
        reply = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_HANDSHAKE)
        return Response(reply, login=Login.FAILED)
    session = connection.session
    if session is not None and session.mechanism != connection.sasl_mechanism:
        return _failed(
            f"SASL mechanism '{connection.sasl_mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{session.mechanism}'"
        )
    response = b""
    try:
        if connection.sasl_mechanism == plain.MECHANISM:
            name: str | None = services.security.plain.authenticate(connection.listener, message.auth_bytes)
        else:
            login = connection.scram = connection.scram or _scram_login(connection.sasl_mechanism, services)
            response = login.step(message.auth_bytes)
            name = login.name
    except ApiError as refused:
        return Response(SaslAuthenticateResponse(refused.code, refused.message), login=Login.FAILED)
    if name is None:
        return Response(SaslAuthenticateResponse(auth_bytes=response))
    connection.scram = None
    if session is not None:
        return _renewed(connection, session, name, response, context.now_ms, services)
    return _complete_login(name, response, context, services)


def _renewed(
    connection: Connection, session: Session, name: str, response: bytes, now_ms: int, services: LoginServices
) -> Outcome:
    if name != connection.principal:
        return _failed(
            f"Cannot change principals during re-authentication from User.{connection.principal}: User.{name}"
        )
    lifetime_ms = _lifetime_ms(connection, services)
    session.renewed(lifetime_ms, now_ms)
    reply = SaslAuthenticateResponse(auth_bytes=response, session_lifetime_ms=lifetime_ms)
    return Response(reply, login=Login.RENEWED)


def _complete_login(name: str, response: bytes, context: RequestContext, services: LoginServices) -> Outcome:
    """Complete the login of an authenticated user, subject to the user's connection limits."""
    connection = context.connection
    refusal = services.logins.enter(connection, name, context.now_ms)
    if refusal is None:
        return _logged_in(connection, name, response, context.now_ms, services)
    if isinstance(refusal, TooFastOfUser) and refusal.throttle_ms:
        retry = partial(_post_retry, name, response, context, services)
        services.logins.delay(connection, refusal.throttle_ms, retry)
        return DELAYED
    return _refused(name, refusal)


def _post_retry(
    name: str, response: bytes, context: RequestContext, services: LoginServices, now_ms: int
) -> None:
    services.callbacks.post(context, partial(_retry_login, name, response, context, services, now_ms))


def _retry_login(
    name: str, response: bytes, context: RequestContext, services: LoginServices, now_ms: int
) -> Outcome:
    """Check the connection limits again after the delay of a login that exceeded the rate."""
    connection = context.connection
    refusal = services.logins.enter(connection, name, now_ms)
    if refusal is None:
        return _logged_in(connection, name, response, now_ms, services)
    if isinstance(refusal, TooFastOfUser):
        services.logins.refuse(connection, name, refusal)
    return _refused(name, refusal)


def _logged_in(
    connection: Connection, name: str, response: bytes, now_ms: int, services: LoginServices
) -> Response:
    connection.principal = name
    connection.authenticated = True
    lifetime_ms = _lifetime_ms(connection, services)
    if lifetime_ms:
        assert connection.sasl_mechanism is not None
        connection.session = Session(connection.sasl_mechanism, lifetime_ms, now_ms)
    reply = SaslAuthenticateResponse(auth_bytes=response, session_lifetime_ms=lifetime_ms)
    return Response(reply, login=Login.SUCCEEDED)


def _lifetime_ms(connection: Connection, services: LoginServices) -> int:
    """Return the session lifetime in ms; 0 means that the login does not expire."""
    return services.security.config.session_ms(connection.listener, connection.sasl_mechanism)


def _refused(name: str, refusal: UserRefusal) -> Response:
    return _failed(refusal_message(name, refusal))


def _failed(why: str) -> Response:
    reply = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
    return Response(reply, login=Login.FAILED)


def _scram_login(mechanism: str, services: LoginServices) -> ScramLogin:
    users, kind = services.control.image.scram, MECHANISMS[mechanism]
    return ScramLogin(
        kind,
        lambda name: users.get(name, {}).get(mechanism),
        lambda name: services.unknown_users.credential(kind, name),
    )
