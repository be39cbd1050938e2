"""SaslAuthenticate: one step of a login.

Versions 0-2. PLAIN takes one step, SCRAM two. A login that fails is answered with
SASL_AUTHENTICATION_FAILED, whatever was wrong with it, and its connection is closed a little later. Without a
handshake before it, or after a login, the answer is ILLEGAL_SASL_STATE.
Left out: re-authentication and session lifetimes (KIP-368: lifetime 0, the session does not end).
"""

from typing import Final

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Login, Outcome
from broker.api.registry import api
from broker.errors import ApiError, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
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
    connection.principal = name
    connection.authenticated = True
    connection.scram = None
    return Answered(SaslAuthenticateResponse(auth_bytes=answer), login=Login.SUCCEEDED)


def _scram_login(mechanism: str, broker: Broker) -> ScramLogin:
    users = broker.control.image.scram
    return ScramLogin(MECHANISMS[mechanism], lambda name: users.get(name, {}).get(mechanism))
