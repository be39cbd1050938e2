"""CreateDelegationToken: makes a token with which others can log in as its owner. (KIP-48, KIP-373)

Versions 1-3; another owner exists from 3. Not on a connection without a login, nor on one that logged in with
a token: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Another owner than the client requires CREATE_TOKENS of that
user, or without an authorizer the administrator's role. An owner of another type than User is
INVALID_PRINCIPAL_TYPE, as a renewer is; Kafka takes it, and its token then logs in as the user of that name.
A client can have 1,000 tokens that have not expired, a token 100 renewers. DELEGATION_TOKEN_AUTH_DISABLED
without `delegation.token.secret.key`.
"""

from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import DelegationTokenServices
from broker.common.errors import ErrorCode
from broker.common.principal import ANONYMOUS, Principal, split_principal
from broker.controller.delegation_tokens import MAX_RENEWERS, CreateDelegationToken, DelegationTokenOutcome
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from broker.security.acl.acl import Operation, ResourceType


def may_request_tokens(context: RequestContext) -> bool:
    """Whether the client has logged in, and not with a token itself. (Kafka: KafkaApis.allowTokenRequests)"""
    connection = context.connection
    return connection.principal != ANONYMOUS and not connection.by_token


def requester_of(context: RequestContext) -> str:
    return str(Principal(context.connection.principal))


def principal_of(kind: str, name: str) -> str:
    return str(Principal(name, kind))


@api(ApiKey.CREATE_DELEGATION_TOKEN, versions=(1, 3), services=DelegationTokenServices)
def handle(
    message: CreateDelegationTokenRequest, context: RequestContext, services: DelegationTokenServices
) -> Outcome | Awaitable[Outcome]:
    requester = requester_of(context)
    owner = requester
    if message.owner_principal_name:
        owner = principal_of(message.owner_principal_type or "", message.owner_principal_name)
    if not may_request_tokens(context):
        refused = DelegationTokenOutcome(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        return _response(refused, owner, requester, b"")
    # One more than a token may have, so that a request with 100,000 is refused and not read.
    requested = message.renewers[: MAX_RENEWERS + 1]
    renewers = tuple(principal_of(each.principal_type, each.principal_name) for each in requested)
    command = CreateDelegationToken(owner, renewers, message.max_lifetime_ms, context.wall_ms)
    return _create(command, requester, context, services)


async def _create(
    command: CreateDelegationToken, requester: str, context: RequestContext, services: DelegationTokenServices
) -> Outcome:
    security, owner = services.security, command.owner
    allowed = owner == requester or security.allows(
        context, Operation.CREATE_TOKENS, ResourceType.USER, owner
    )
    outcome = await services.control.apply(command, security.actor(context, authorized=allowed))
    hmac = services.tokens.hmac(outcome.token_id) if outcome.ok else b""
    return _response(outcome, owner, requester, hmac)


def _response(outcome: DelegationTokenOutcome, owner: str, requester: str, hmac: bytes) -> Response:
    return Response(
        CreateDelegationTokenResponse(
            outcome.error,
            *split_principal(owner),
            *split_principal(requester),
            outcome.issued_ms,
            outcome.expires_ms,
            outcome.max_ms,
            outcome.token_id if outcome.ok else "",
            hmac,
        )
    )
