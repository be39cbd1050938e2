"""SaslAuthenticate: one step of a login.

Versions 0-2. PLAIN takes one step, SCRAM two. A login that fails is answered with
SASL_AUTHENTICATION_FAILED, whatever was wrong with it, and its connection is closed a little later; so is one
whose user has too many connections already, for all clients show what they are told with this code. Without a
handshake before it, or after a login, the answer is ILLEGAL_SASL_STATE.
Left out: re-authentication and session lifetimes (KIP-368: lifetime 0, the session does not end).
"""

from functools import partial
from typing import Final

from broker.api.broker import Broker
from broker.api.context import Connection, RequestContext
from broker.api.logins import words
from broker.api.outcome import PARKED, Answered, Login, Outcome
from broker.api.registry import api
from broker.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.quotas.user_connections import TooFastOfUser, UserRefusal
from broker.security import plain
from broker.security.scram import MECHANISMS, ScramLogin

LOGGED_IN: Final = "SaslAuthenticate request received after successful authentication"
NO_HANDSHAKE: Final = "SaslAuthenticate request received before SaslHandshake"


@api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2), before_login=True)
def handle(message: SaslAuthenticateRequest, context: RequestContext, broker: Broker) -> Outcome:
    connection = context.connection
    if connection.authenticated:
        return Answered(SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, LOGGED_IN))
    if connection.sasl_mechanism is None:
        reply = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, NO_HANDSHAKE)
        return Answered(reply, login=Login.FAILED)
    answer = b""
    try:
        if connection.sasl_mechanism == plain.MECHANISM:
            name: str | None = broker.plain.authenticate(connection.listener, message.auth_bytes)
        else:
            login = connection.scram = connection.scram or _scram_login(connection.sasl_mechanism, broker)
            answer = login.step(message.auth_bytes)
            name = login.name
    except ApiError as refused:
        return Answered(SaslAuthenticateResponse(refused.code, refused.message), login=Login.FAILED)
    if name is None:
        return Answered(SaslAuthenticateResponse(auth_bytes=answer))
    connection.scram = None
    return _enter(name, answer, context, broker)


def _enter(name: str, answer: bytes, context: RequestContext, broker: Broker) -> Outcome:
    """The user is who it says; whether it may have one more connection."""
    connection = context.connection
    refusal = broker.logins.enter(connection, name, context.now_ms)
    if refusal is None:
        return _logged_in(connection, name, answer)
    if isinstance(refusal, TooFastOfUser) and refusal.throttle_ms:
        broker.logins.hold(refusal.throttle_ms, partial(_look_again, name, answer, context, broker))
        return PARKED
    return _refused(name, refusal)


def _look_again(name: str, answer: bytes, context: RequestContext, broker: Broker, now_ms: int) -> None:
    """It came too fast and was held; a second time it is not."""
    connection = context.connection
    refusal = broker.logins.enter(connection, name, now_ms)
    if refusal is None:
        outcome = _logged_in(connection, name, answer)
    else:
        if isinstance(refusal, TooFastOfUser):
            broker.logins.refuse(connection, name, refusal)
        outcome = _refused(name, refusal)
    broker.callbacks.post(context, outcome)


def _logged_in(connection: Connection, name: str, answer: bytes) -> Answered:
    connection.principal = name
    connection.authenticated = True
    return Answered(SaslAuthenticateResponse(auth_bytes=answer), login=Login.SUCCEEDED)


def _refused(name: str, refusal: UserRefusal) -> Answered:
    reply = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, words(name, refusal))
    return Answered(reply, login=Login.FAILED)


def _scram_login(mechanism: str, broker: Broker) -> ScramLogin:
    users = broker.control.image.scram
    return ScramLogin(MECHANISMS[mechanism], lambda name: users.get(name, {}).get(mechanism))
