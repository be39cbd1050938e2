"""Applies the roles of clients to their requests where the gateway logs them in, as a broker does
(`api.security.client_security`).

Upstream, they all have the gateway's own credentials, so no ACL distinguishes them, unless
gateway.upstream.principal gives each its own: then ACLs decide about what a role allows. Where clients log in
upstream (gateway.authentication=upstream), the cluster's ACLs decide, and no role is asked.
"""

from collections.abc import Awaitable
from functools import cache, partial
from typing import Any, Final

from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.error_responses import error_response_in_slices
from broker.api.requests.outcome import Outcome, Response, Sliced
from broker.api.security.client_security import ACCESS, ClientSecurity
from broker.common.errors import ErrorCode
from broker.common.principal import Principal
from broker.common.slices import Slices
from broker.gateway.apis.asking import Handle, forward, in_own_task
from broker.gateway.routes import Answers, AnswersVersion
from broker.metadata.actor import Role, lacks_role

NO_REPLICAS: Final = "Replicas do not fetch through a gateway."


class Roles:
    """The roles of clients, for the handlers and routes of the gateway."""

    def __init__(self, security: ClientSecurity) -> None:
        self._security = security
        self._is_judged = cache(security.is_judged)

    def of(self, connection: Connection) -> Role:
        """Return the client's role; where the upstream cluster decides, the highest."""
        return self._security.role_of(connection) if self._is_judged(connection.listener) else Role.ADMIN

    def lacks(self, connection: Connection, needed: Role) -> str:
        """Return why the client is refused what needs a role; an empty string if it is not."""
        role = self.of(connection)
        return "" if role >= needed else lacks_role(str(Principal(connection.principal)), role, needed)


def answers_refused(key: int, roles: Roles, answers: AnswersVersion | None) -> AnswersVersion:
    """Return the answer for all versions: the gateway refuses the client, or answers the request anyway."""
    access = ACCESS[key]

    def of_version(version: int) -> Answers | None:
        needed = access.role_in(version)
        others = None if answers is None else answers(version)
        if needed == Role.VIEWER:
            return others
        return lambda frame, channel: (
            roles.of(channel) < needed or (others is not None and others(frame, channel))
        )

    return of_version


def refusing(key: int, roles: Roles, handle: Handle | None) -> Handle:
    """Return a handler that refuses clients without the role. `handle` answers the others; without it, their
    requests are forwarded.
    """
    access = ACCESS[key]

    def of_role(message: Any, context: RequestContext, services: Any) -> Outcome | Awaitable[Outcome]:
        reason = roles.lacks(context.connection, access.role_in(context.api_version))
        if reason:
            return refused(message, context, access.denial, reason)
        if handle is None:
            return in_own_task(partial(forward, context, message))
        return handle(message, context, services)

    return of_role


def refuse_replica(message: Any, context: RequestContext, services: Any) -> Outcome | Awaitable[Outcome]:
    """Refuse a Fetch with a replica id, whatever the role: it would move the high watermark upstream."""
    return refused(message, context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NO_REPLICAS)


def refused(message: Any, context: RequestContext, code: ErrorCode, reason: str) -> Sliced:
    """Return the response with an error for all that was asked."""
    return Sliced(_refuse(message, context, code, reason), None)


def _refuse(
    message: Any, context: RequestContext, code: ErrorCode, reason: str
) -> Slices[Outcome | Awaitable[Outcome]]:
    key, version = context.api_key, context.api_version
    reply, _ = yield from error_response_in_slices(key, version, message, code, reason)
    return Response(reply)
