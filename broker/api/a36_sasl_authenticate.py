"""SaslAuthenticate: one step of a login.

Versions 0-2. PLAIN takes one step, SCRAM two, OAUTHBEARER one, or two if the token is refused. Every failed
login gets SASL_AUTHENTICATION_FAILED and its connection is closed after a delay; this includes users with too
many connections, because all clients display the message of this code. Without a preceding handshake, or
after a login, the response is ILLEGAL_SASL_STATE. Tokens after SaslHandshake 0 come here too, without a
request around them (network.requests.routes).

A session ends with the access token or the delegation token that began it, or after
`connections.max.reauth.ms`, whichever is earlier. Re-authentication (KIP-368) needs another handshake, on a
listener whose logins expire, and may change neither the principal nor the mechanism. Kafka closes the
connection without a response if the mechanism differs; here the client gets the error, and the connection is
closed after the same delay.
"""

from functools import partial
from typing import Final, NamedTuple

from broker.api.registry import api
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.outcome import DELAYED, Login, Outcome, Response
from broker.api.requests.services import LoginServices
from broker.api.security.client_security import may_log_in, refusal_message
from broker.common.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.quotas.connections import TooFastOfUser, UserRefusal
from broker.security.sasl import SaslLogin, SaslSession

LOGGED_IN: Final = "SaslAuthenticate request received after successful authentication"
NO_HANDSHAKE: Final = "SaslAuthenticate request received before SaslHandshake"


@api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), services=LoginServices, before_login=True)
def handle(message: SaslAuthenticateRequest, context: RequestContext, services: LoginServices) -> Outcome:
    connection = context.connection
    if not may_log_in(connection):
        return Response(SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, LOGGED_IN))
    login = connection.sasl_login
    if login is None:
        reply = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_HANDSHAKE)
        return Response(reply, login=Login.FAILED)
    session = connection.session
    if session is not None and session.mechanism != login.mechanism:
        return _failed(
            f"SASL mechanism '{login.mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{session.mechanism}'"
        )
    try:
        response = login.step(message.auth_bytes, context.wall_ms)
    except ApiError as refused:
        return Response(SaslAuthenticateResponse(refused.code, refused.message), login=Login.FAILED)
    if login.name is None:
        return Response(SaslAuthenticateResponse(error_message="", auth_bytes=response))
    connection.sasl_login = None
    connection.sends_raw_tokens = False
    user = _User(login.name, response, login)
    if session is not None:
        return _renewed(connection, session, user, context, services)
    return _complete_login(user, context, services)


class _User(NamedTuple):
    """An authenticated user: the name, the login's last response, and the login."""

    name: str
    response: bytes
    login: SaslLogin


def _renewed(
    connection: Connection,
    session: SaslSession,
    user: _User,
    context: RequestContext,
    services: LoginServices,
) -> Outcome:
    if user.name != connection.principal:
        return _failed(
            f"Cannot change principals during re-authentication from User.{connection.principal}: "
            f"User.{user.name}"
        )
    connection.by_token = user.login.by_token
    lifetime_ms = _lifetime_ms(connection, user.login, context.wall_ms, services)
    session.renewed(lifetime_ms or 0, context.now_ms)
    reply = SaslAuthenticateResponse(
        error_message="", auth_bytes=user.response, session_lifetime_ms=lifetime_ms or 0
    )
    return Response(reply, login=Login.RENEWED)


def _complete_login(user: _User, context: RequestContext, services: LoginServices) -> Outcome:
    """Complete the login of an authenticated user, subject to the user's connection limits."""
    connection = context.connection
    refusal = services.logins.enter(connection, user.name, context.now_ms)
    if refusal is None:
        return _logged_in(user, context, context.now_ms, services)
    if isinstance(refusal, TooFastOfUser) and refusal.throttle_ms:
        retry = partial(_post_retry, user, context, services)
        services.logins.delay(connection, refusal.throttle_ms, retry)
        return DELAYED
    return _refused(user.name, refusal)


def _post_retry(user: _User, context: RequestContext, services: LoginServices, now_ms: int) -> None:
    services.callbacks.post(context, partial(_retry_login, user, context, services, now_ms))


def _retry_login(user: _User, context: RequestContext, services: LoginServices, now_ms: int) -> Outcome:
    """Check the connection limits again after the delay of a login that exceeded the rate."""
    connection = context.connection
    refusal = services.logins.enter(connection, user.name, now_ms)
    if refusal is None:
        return _logged_in(user, context, now_ms, services)
    if isinstance(refusal, TooFastOfUser):
        services.logins.refuse(connection, user.name, refusal)
    return _refused(user.name, refusal)


def _logged_in(user: _User, context: RequestContext, now_ms: int, services: LoginServices) -> Response:
    """`now_ms` is later than the request's own time if the login was delayed."""
    connection = context.connection
    connection.principal = user.name
    connection.authenticated = True
    connection.by_token = user.login.by_token
    wall_ms = context.wall_ms + now_ms - context.now_ms
    lifetime_ms = _lifetime_ms(connection, user.login, wall_ms, services)
    if lifetime_ms is not None:
        connection.session = SaslSession(user.login.mechanism, lifetime_ms, now_ms)
    reply = SaslAuthenticateResponse(
        error_message="", auth_bytes=user.response, session_lifetime_ms=lifetime_ms or 0
    )
    return Response(reply, login=Login.SUCCEEDED)


def _lifetime_ms(
    connection: Connection, login: SaslLogin, wall_ms: int, services: LoginServices
) -> int | None:
    """Return the session lifetime in ms, None if the login does not expire. 0 is over in a millisecond: the
    token expired within the clock skew, or while the login was delayed.
    """
    most_ms = services.security.config.session_ms(connection.listener, login.mechanism)
    if login.ends_wall_ms is None:
        return most_ms or None
    left_ms = max(login.ends_wall_ms - wall_ms, 0)
    return min(left_ms, most_ms) if most_ms else left_ms


def _refused(name: str, refusal: UserRefusal) -> Response:
    return _failed(refusal_message(name, refusal))


def _failed(why: str) -> Response:
    reply = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
    return Response(reply, login=Login.FAILED)
