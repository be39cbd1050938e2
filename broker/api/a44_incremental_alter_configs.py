"""IncrementalAlterConfigs: sets, removes, extends or shortens settings one by one. (KIP-339)

Versions 0-1. What is not named stays. All changes of one resource stand or fall together; resources do so by
themselves. The levels of the broker's loggers (KIP-412) hold until it ends, as in Kafka.
Left out: groups; such a resource is an invalid request.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import ConfigAlteration, ConfigOp, ConfigResource, IncrementalAlterConfigs
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@api(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1))
async def handle(message: IncrementalAlterConfigsRequest, context: RequestContext, broker: Broker) -> Outcome:
    command = IncrementalAlterConfigs(
        tuple(_alteration(resource) for resource in message.resources), message.validate_only
    )
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    return Answered(
        IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(each.error, each.message, each.resource.type, each.resource.name)
                for each in outcomes
            ]
        )
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    return ConfigAlteration(
        ConfigResource(resource.resource_type, resource.resource_name),
        tuple(ConfigOp(config.name, config.config_operation, config.value) for config in resource.configs),
    )
