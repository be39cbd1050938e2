"""CreateAcls: creates ACLs.

Versions 1-3; the resource type USER exists from 3. Each ACL succeeds or fails alone, and one that exists
succeeds. The only resource of type CLUSTER is `kafka-cluster`; ANY and MATCH are for filters; a principal is
`<type>:<name>`. An unknown type or operation is INVALID_REQUEST for its ACL, where Kafka closes the
connection if the number is 0. The ACLs of a request apply at one moment. Requires ALTER of the cluster;
SECURITY_DISABLED if there is no authorizer.
"""

from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.change_limits import applied, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.common.slices import Slices
from broker.controller.commands import CreateAcls
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from broker.security.acl.acl import Acl, Operation


@api(ApiKey.CREATE_ACLS, versions=(1, 3), services=ControlServices)
def handle(
    message: CreateAclsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(message.creations, _acl)
    if wanted is None:
        return (
            yield from refused(
                message.creations,
                lambda _each, error, why: AclCreationResult(error, why),
                lambda each: CreateAclsResponse(results=each),
            )
        )
    return applied(
        CreateAcls,
        wanted,
        services.security.actor(context, Operation.ALTER),
        services.control,
        lambda each: AclCreationResult(each.error, each.message),
        lambda each: CreateAclsResponse(results=each),
    )


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
