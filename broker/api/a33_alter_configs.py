"""AlterConfigs: replaces all configs of a resource; the predecessor of IncrementalAlterConfigs.

Versions 0-2. Configs that the request does not name are removed. Left out: loggers, as in Kafka, and groups
(such a resource is an invalid request).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from broker.api.registry import api
from broker.api.requests.change_limits import applied, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.protocol.schema import Struct
from broker.security.acl.acl import CLUSTER_NAME, Operation
from broker.security.acl.acl import ResourceType as AclResourceType


class ConfigChanges(NamedTuple):
    """The differences of one API.

    They are the operation of a config entry, the response classes, and whether the entries replace all
    configs of their resource.
    """

    operation: Callable[[Any], ConfigOp]
    result: Callable[[ErrorCode, str | None, int, str], Any]
    reply: Callable[[list[Any]], Struct]
    replaces: bool


def alter_configs(
    changes: ConfigChanges,
    resources: Sequence[Any],
    validate_only: bool,
    context: RequestContext,
    services: ControlServices,
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Apply the changes of `resources`; too many resources get POLICY_VIOLATION each. For
    IncrementalAlterConfigs too, whose messages differ in two fields only.
    """

    def alteration(resource: Any) -> ConfigAlteration:
        return ConfigAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            tuple(changes.operation(config) for config in resource.configs),
        )

    wanted = yield from entries_of(resources, alteration, lambda each: len(each.configs))
    if wanted is None:
        return (
            yield from refused(
                resources,
                lambda each, error, why: changes.result(error, why, each.resource_type, each.resource_name),
                changes.reply,
            )
        )
    allowed: list[ConfigAlteration] = []
    denied: list[ResourceOutcome] = []
    for each in wanted:
        kind, name = each.resource.type, each.resource.name
        error = config_refusal(kind, name, Operation.ALTER_CONFIGS, context, services.security)
        if error:
            denied.append(ResourceOutcome(error, MESSAGES[error], each.resource))
        else:
            allowed.append(each)
        yield None
    return applied(
        lambda each: IncrementalAlterConfigs(each, validate_only, replaces=changes.replaces),
        allowed,
        services.security.actor(context, authorized=True),
        services.control,
        lambda each: changes.result(each.error, each.message, each.resource.type, each.resource.name),
        changes.reply,
        denied,
    )


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
    """Return why the client may not do this with a resource's configs, or NONE. (Kafka: ConfigHelper,
    ControllerApis)
    """
    if security.authorizer is None or kind == ResourceType.UNKNOWN:
        return ErrorCode.NONE
    if kind == ResourceType.BROKER_LOGGER and operation is Operation.ALTER_CONFIGS:
        operation = Operation.CLUSTER_ACTION
    resource_type, error = NAMED.get(kind, (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if resource_type is AclResourceType.CLUSTER:
        name = CLUSTER_NAME
    return ErrorCode.NONE if security.allows(context, operation, resource_type, name) else error


_CHANGES: Final = ConfigChanges(
    operation=lambda config: ConfigOp(config.name, OpType.SET, config.value),
    result=AlterConfigsResourceResponse,
    reply=lambda responses: AlterConfigsResponse(responses=responses),
    replaces=True,
)


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2), services=ControlServices)
def handle(
    message: AlterConfigsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    return (yield from alter_configs(_CHANGES, message.resources, message.validate_only, context, services))
