"""SaslHandshake: selects the SASL mechanism of a login.

Versions 0-1. After version 1 the tokens are in SaslAuthenticate requests (KIP-152); after version 0 each
token is a frame without a request around it (KIP-43), and so is its response. Such a token has at most
`sasl.server.max.receive.size` bytes, and a failed login only ends the connection, after the usual delay. As
with SaslAuthenticate, SCRAM answers an unknown user as a known one and holds the client to its channel
binding (RFC 5802); Kafka ends the connection at once, and does not look. The response is ILLEGAL_SASL_STATE,
as in Kafka, on a listener without SASL, after a login that does not expire, and within a second of the last
re-authentication (KIP-368; network.authentication).
"""

from functools import partial

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Login, Outcome, Response
from broker.api.requests.services import LoginServices
from broker.api.security.client_security import may_log_in
from broker.common.errors import ErrorCode
from broker.common.principal import split_principal
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.security import oauthbearer, plain
from broker.security.oauthbearer import OAuthBearerLogin
from broker.security.plain import PlainLogin
from broker.security.sasl import SaslLogin
from broker.security.scram import MECHANISMS, ScramLogin, ScramMechanism, TokenOwner


@api(ApiKey.SASL_HANDSHAKE, versions=(0, 1), services=LoginServices, before_login=True)
def handle(message: SaslHandshakeRequest, context: RequestContext, services: LoginServices) -> Outcome:
    connection = context.connection
    if not may_log_in(connection):
        return Response(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
    enabled = services.security.config.for_listener(connection.listener).sasl_enabled_mechanisms
    if message.mechanism not in enabled:
        refusal = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(enabled))
        return Response(refusal, login=Login.FAILED)
    connection.sasl_mechanism = message.mechanism
    connection.sasl_login = _begin_login(message.mechanism, connection.listener, services)
    connection.sends_raw_tokens = context.api_version == 0
    return Response(SaslHandshakeResponse(ErrorCode.NONE, list(enabled)))


def _begin_login(mechanism: str, listener: str, services: LoginServices) -> SaslLogin:
    """Return a new login with this mechanism, which must be one of `sasl.enabled.mechanisms`."""
    security = services.security
    match mechanism:
        case plain.MECHANISM:
            return PlainLogin(security.plain, listener)
        case oauthbearer.MECHANISM:
            return OAuthBearerLogin(partial(security.read_token, listener))
        case _:
            return _scram_login(mechanism, services)


def _scram_login(mechanism: str, services: LoginServices) -> ScramLogin:
    users, kind = services.control.image.scram, MECHANISMS[mechanism]
    return ScramLogin(
        kind,
        lambda name: users.get(name, {}).get(mechanism),
        lambda name: services.unknown_users.credential(kind, name),
        lambda token_id: _owner(kind, token_id, services),
    )


def _owner(mechanism: ScramMechanism, token_id: str, services: LoginServices) -> TokenOwner | None:
    """Return the owner of a delegation token with its credential; None if there is no such token."""
    token = services.control.image.delegation_tokens.get(token_id)
    if token is None or not services.tokens.enabled:
        return None
    credential = services.tokens.credential(mechanism, token_id)
    _, name = split_principal(token.owner)
    return TokenOwner(name, token.expires_ms, credential)
