"""Decides whether a client may read or change the configs of a resource. (Kafka: ConfigHelper,
ControllerApis)
"""

from typing import Final

from broker.api.requests.context import RequestContext
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType
from broker.security.acl.acl import CLUSTER_NAME, Operation
from broker.security.acl.acl import ResourceType as AclResourceType

NAMED: Final[dict[int, tuple[AclResourceType, ErrorCode]]] = {
    ResourceType.TOPIC: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""The resources that are authorized by their names; all others are authorized as the cluster."""

MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}


def config_refusal(
    kind: int, name: str, operation: Operation, context: RequestContext, security: ClientSecurity
) -> ErrorCode:
    """Return why the client may not do this with a resource's configs, or NONE."""
    if security.authorizer is None or kind == ResourceType.UNKNOWN:
        return ErrorCode.NONE
    if kind == ResourceType.BROKER_LOGGER and operation is Operation.ALTER_CONFIGS:
        operation = Operation.CLUSTER_ACTION
    resource_type, error = NAMED.get(kind, (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if resource_type is AclResourceType.CLUSTER:
        name = CLUSTER_NAME
    return ErrorCode.NONE if security.allows(context, operation, resource_type, name) else error
