"""ListConfigResources: lists the resources that DescribeConfigs can describe. (KIP-1142)

Versions 0-1. Version 0 is KIP-714's ListClientMetricsResources, which lists the client metrics subscriptions;
version 1 lists the requested types, or all: topics, brokers, broker loggers, client metrics, and groups with
settings of their own. An unknown type is UNSUPPORTED_VERSION, as in Kafka.
"""

from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import ResourceType
from broker.controller.describe import named_resources
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.security.acl.acl import Operation

ONLY_TYPE_OF_0: Final = ResourceType.CLIENT_METRICS


@api(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), services=ControlServices)
def handle(
    message: ListConfigResourcesRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE_CONFIGS):
        return Response(ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    control = services.control
    listed = named_resources(control.image, control.configuration)
    wanted = {ONLY_TYPE_OF_0} if context.api_version == 0 else set(message.resource_types) or set(listed)
    if not wanted <= listed.keys():
        return Response(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    found = []
    for kind, names in listed.items():
        if kind in wanted:
            found += yield from mapped(partial(ConfigResource, resource_type=kind), names)
    return Response(ListConfigResourcesResponse(config_resources=found))
