"""RenewDelegationToken: lets a token expire later. (KIP-48)

Versions 1-2. For the token's owner and its renewers, others get DELEGATION_TOKEN_OWNER_MISMATCH. The token
expires after `renew_period_ms`, and at the latest after `delegation.token.expiry.time.ms` and at the end of
its lifetime. Refused on the connections of CreateDelegationToken.
"""

from collections.abc import Awaitable

from broker.api.a38_create_delegation_token import may_request_tokens
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import DelegationTokenServices
from broker.common.errors import ErrorCode
from broker.controller.delegation_tokens import RenewDelegationToken
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delegation_tokens import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@api(ApiKey.RENEW_DELEGATION_TOKEN, versions=(1, 2), services=DelegationTokenServices)
def handle(
    message: RenewDelegationTokenRequest, context: RequestContext, services: DelegationTokenServices
) -> Outcome | Awaitable[Outcome]:
    if not may_request_tokens(context):
        return Response(RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1))
    token_id = services.tokens.find(bytes(message.hmac)) or ""
    return _renew(RenewDelegationToken(token_id, message.renew_period_ms, context.wall_ms), context, services)


async def _renew(
    command: RenewDelegationToken, context: RequestContext, services: DelegationTokenServices
) -> Outcome:
    outcome = await services.control.apply(command, services.security.actor(context))
    return Response(RenewDelegationTokenResponse(outcome.error, outcome.expires_ms))
