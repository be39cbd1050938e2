"""SaslAuthenticate: one step of a login.

Versions 0-2, mechanism PLAIN, whose first step is the last. A login that fails is answered with
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
    try:
        name = broker.plain.authenticate(connection.listener, message.auth_bytes)
    except ApiError as refused:
        return Answered(SaslAuthenticateResponse(refused.code, refused.message), login=Login.FAILED)
    connection.principal = name
    connection.authenticated = True
    return Answered(SaslAuthenticateResponse(), login=Login.SUCCEEDED)
