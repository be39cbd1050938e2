"""DescribeAcls: lists the ACLs that match a filter.

Versions 1-3; the resource type USER exists from 3. The pattern type MATCH selects the patterns that match the
named resource: the literal one, the wildcard, and every prefix of it. A resource pattern has one entry, with
all of its ACLs. A filter with an unknown type is INVALID_REQUEST, where Kafka closes the connection. Requires
DESCRIBE of the cluster; SECURITY_DISABLED if there is no authorizer.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from broker.security.acl.acl import AclFilter, Operation

NO_AUTHORIZER = "No Authorizer is configured on the broker"


@api(ApiKey.DESCRIBE_ACLS, versions=(1, 3), services=ControlServices)
def handle(
    message: DescribeAclsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    if services.security.authorizer is None:
        return _refused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    wanted = AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )
    fault = wanted.fault()
    if fault is not None:
        return _refused(ErrorCode.INVALID_REQUEST, fault)
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for acl in services.control.image.acls:
        yield None
        if not wanted.matches(acl):
            continue
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                acl.resource_type, acl.resource_name, acl.pattern_type, []
            )
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return Response(DescribeAclsResponse(resources=list(resources.values())))


def _refused(error: ErrorCode, message: str | None) -> Outcome:
    return Response(DescribeAclsResponse(error_code=error, error_message=message))
