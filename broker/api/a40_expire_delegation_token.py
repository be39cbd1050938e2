"""ExpireDelegationToken: lets a token expire earlier, or removes it. (KIP-48)

Versions 1-2. A negative `expiry_time_period_ms` removes the token at once, even an expired one. For the
token's owner and its renewers, others get DELEGATION_TOKEN_OWNER_MISMATCH. A session that began with the
token lasts until the token's former expiry, as in Kafka. Refused on the connections of CreateDelegationToken.
"""

from collections.abc import Awaitable

from broker.api.a38_create_delegation_token import may_request_tokens
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import DelegationTokenServices
from broker.common.errors import ErrorCode
from broker.controller.delegation_tokens import ExpireDelegationToken
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delegation_tokens import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(1, 2), services=DelegationTokenServices)
def handle(
    message: ExpireDelegationTokenRequest, context: RequestContext, services: DelegationTokenServices
) -> Outcome | Awaitable[Outcome]:
    if not may_request_tokens(context):
        return Response(ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1))
    token_id = services.tokens.find(bytes(message.hmac)) or ""
    command = ExpireDelegationToken(token_id, message.expiry_time_period_ms, context.wall_ms)
    return _expire(command, context, services)


async def _expire(
    command: ExpireDelegationToken, context: RequestContext, services: DelegationTokenServices
) -> Outcome:
    outcome = await services.control.apply(command, services.security.actor(context))
    return Response(ExpireDelegationTokenResponse(outcome.error, outcome.expires_ms))
