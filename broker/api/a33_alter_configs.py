"""AlterConfigs: replaces all settings of a resource at once; the elder of IncrementalAlterConfigs.

Versions 0-2. A setting that the resource has and the request does not name is removed.
Left out: loggers, as in Kafka, and groups; such a resource is an invalid request.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
)
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2))
async def handle(message: AlterConfigsRequest, context: RequestContext, broker: Broker) -> Outcome:
    command = IncrementalAlterConfigs(
        tuple(_alteration(resource) for resource in message.resources), message.validate_only, replaces=True
    )
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    return Answered(
        AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(each.error, each.message, each.resource.type, each.resource.name)
                for each in outcomes
            ]
        )
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    return ConfigAlteration(
        ConfigResource(resource.resource_type, resource.resource_name),
        tuple(ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs),
    )
