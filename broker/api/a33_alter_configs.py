"""AlterConfigs: replaces all settings of a resource at once; the elder of IncrementalAlterConfigs.

Versions 0-2. A setting that the resource has and the request does not name is removed, so the request is
carried out as the incremental one that leads there.
"""

from collections.abc import Mapping

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
    ResourceType,
)
from broker.metadata.image import Image
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2))
async def handle(message: AlterConfigsRequest, context: RequestContext, broker: Broker) -> Outcome:
    image = broker.control.image
    command = IncrementalAlterConfigs(
        tuple(_replacement(resource, image) for resource in message.resources), message.validate_only
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


def _replacement(resource: AlterConfigsResource, image: Image) -> ConfigAlteration:
    target = ConfigResource(resource.resource_type, resource.resource_name)
    named = {config.name for config in resource.configs}
    kept = [ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs]
    gone = [ConfigOp(key, OpType.DELETE) for key in _present(target, image) if key not in named]
    return ConfigAlteration(target, (*kept, *gone))


def _present(target: ConfigResource, image: Image) -> Mapping[str, str]:
    if target.type == ResourceType.BROKER:
        return image.broker_configs.get(target.name, {})
    if target.type == ResourceType.TOPIC and target.name in image.topics:
        return image.topics[target.name].configs
    if target.type == ResourceType.CLIENT_METRICS and target.name in image.client_metrics:
        return image.client_metrics[target.name].configs
    return {}
