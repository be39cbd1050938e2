"""DeleteAcls: deletes the ACLs that match filters.

Versions 1-3; the resource type USER exists from 3. The response has the deleted ACLs of each filter; an ACL
that several filters match is in each of their results. All ACLs of a request are deleted at one moment, which
the next request of every open connection notices. Requires ALTER of the cluster; SECURITY_DISABLED if there
is no authorizer.
"""

from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.change_limits import entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, outcome_of
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import AclDeletion, DeleteAcls
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from broker.security.acl.acl import Acl, AclFilter, Operation


@api(ApiKey.DELETE_ACLS, versions=(1, 3), services=ControlServices)
def handle(
    message: DeleteAclsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(message.filters, _filter)
    if wanted is None:
        return (
            yield from refused(
                message.filters,
                lambda _each, error, why: DeleteAclsFilterResult(error, why, []),
                lambda each: DeleteAclsResponse(filter_results=each),
            )
        )
    return _delete(wanted, context, services)


def _filter(wanted: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


async def _delete(wanted: list[AclFilter], context: RequestContext, services: ControlServices) -> Outcome:
    command = DeleteAcls(tuple(wanted))
    outcomes = await services.control.apply(command, services.security.actor(context, Operation.ALTER))
    return outcome_of(_results(outcomes))


def _results(outcomes: list[AclDeletion]) -> Slices[Outcome]:
    results: list[DeleteAclsFilterResult] = []
    for each in outcomes:
        matching = yield from mapped(_matching, each.deleted)
        results.append(DeleteAclsFilterResult(each.error, each.message, matching))
        yield None
    return Response(DeleteAclsResponse(filter_results=results))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        ErrorCode.NONE,
        None,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )
