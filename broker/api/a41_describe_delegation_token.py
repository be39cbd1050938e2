"""DescribeDelegationToken: lists delegation tokens with their HMACs. (KIP-48, KIP-373)

Versions 1-3; the requester of a token is shown from 3. Null owners select all tokens, an empty list none. A
client sees the tokens that it owns, requested or may renew, and with an authorizer those that it may DESCRIBE
and those of users whose tokens it may describe (DESCRIBE_TOKENS). Without an authorizer only administrators
see the others; Kafka then shows all tokens to every client, which could log in with them. Expired tokens are
listed until they are removed. Refused on the connections of CreateDelegationToken.
"""

from broker.api.a38_create_delegation_token import may_request_tokens, principal_of, requester_of
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import emptied
from broker.api.requests.services import DelegationTokenServices
from broker.common.errors import ErrorCode
from broker.common.principal import split_principal
from broker.common.slices import Slices
from broker.metadata.actor import Role
from broker.metadata.image import DelegationToken
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delegation_tokens import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from broker.security.acl.acl import Operation, ResourceType


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(1, 3), services=DelegationTokenServices)
def handle(
    message: DescribeDelegationTokenRequest, context: RequestContext, services: DelegationTokenServices
) -> Slices[Outcome]:
    if not may_request_tokens(context):
        return Response(DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if not services.tokens.enabled:
        return Response(DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    owners: set[str] | None = None
    if message.owners is not None:
        owners = set()
        for each in message.owners:
            owners.add(principal_of(each.principal_type, each.principal_name))
            yield None
    found: list[DescribedDelegationToken] = []
    for token_id, token in services.control.image.delegation_tokens.items():
        if (owners is None or not owners.isdisjoint(token.parties)) and _may_see(
            token_id, token, context, services
        ):
            found.append(_described(token_id, token, services))
        yield None
    if owners is not None:
        yield from emptied(owners)
    return Response(DescribeDelegationTokenResponse(tokens=found))


def _may_see(
    token_id: str, token: DelegationToken, context: RequestContext, services: DelegationTokenServices
) -> bool:
    security = services.security
    if requester_of(context) in token.parties:
        return True
    if security.authorizer is None:
        return security.actor(context).role is Role.ADMIN
    return security.allows(
        context, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id, logs=False
    ) or security.allows(context, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, logs=False)


def _described(
    token_id: str, token: DelegationToken, services: DelegationTokenServices
) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *split_principal(token.owner),
        *split_principal(token.requester),
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token_id,
        services.tokens.hmac(token_id),
        [DescribedDelegationTokenRenewer(*split_principal(each)) for each in token.renewers],
    )
