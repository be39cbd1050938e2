"""FindCoordinator at the gateway: share coordinators are for brokers; a request for others is forwarded."""

from collections.abc import Awaitable
from functools import partial

from broker.api.a10_find_coordinator import SHARE, SHARE_SINCE
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.security.client_security import FOR_BROKERS
from broker.common.errors import ErrorCode
from broker.gateway.apis.deciding import decides
from broker.gateway.apis.roles import Handle, Roles, refused
from broker.gateway.apis.work import Addresses, forward_readdressed, in_own_task
from broker.gateway.routes import Answers, AnswersVersion
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest


def answers_share_coordinators(roles: Roles) -> AnswersVersion:
    """Return the answer for all versions: whether it is a request of brokers by a client that is none."""

    def of_version(version: int) -> Answers | None:
        if version < SHARE_SINCE:
            return None
        return decides(
            ApiKey.FIND_COORDINATOR,
            version,
            lambda message, _channel: message.key_type == SHARE,
            lambda _frame, channel: roles.of(channel) < FOR_BROKERS,
        )

    return of_version


def handler(roles: Roles, addresses: Addresses) -> Handle:
    """Return the handler. `addresses` are those that a listener advertises."""

    def handle(
        message: FindCoordinatorRequest, context: RequestContext, _services: object
    ) -> Outcome | Awaitable[Outcome]:
        reason = roles.lacks(context.connection, FOR_BROKERS)
        if message.key_type == SHARE and reason:
            return refused(message, context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
        return in_own_task(partial(forward_readdressed, context, message, addresses))

    return handle
