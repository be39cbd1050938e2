"""Begins a login with any SASL mechanism. For the SaslHandshake handler."""

from functools import partial

from broker.api.requests.services import LoginServices
from broker.common.principal import split_principal
from broker.security import oauthbearer, plain
from broker.security.oauthbearer import OAuthBearerLogin
from broker.security.plain import PlainLogin
from broker.security.sasl import SaslLogin
from broker.security.scram import MECHANISMS, ScramLogin, ScramMechanism, TokenOwner


def begin_login(mechanism: str, listener: str, services: LoginServices) -> SaslLogin:
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
