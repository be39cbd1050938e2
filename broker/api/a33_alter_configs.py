"""AlterConfigs: replaces all settings of a resource at once; the elder of IncrementalAlterConfigs.

Versions 0-2. A setting that the resource has and the request does not name is removed.
Left out: loggers, as in Kafka, and groups; such a resource is an invalid request.
"""

from collections.abc import Awaitable

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.large_changes import entries_of, refused
from broker.api.outcome import Answered, Outcome, in_slices, outcome_of
from broker.api.pacing import Pace, mapped
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
)
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.records.slices import Slices


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2))
def handle(
    message: AlterConfigsRequest, context: RequestContext, broker: Broker
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_read(message, context, broker))


def _read(
    message: AlterConfigsRequest, context: RequestContext, broker: Broker
) -> Slices[Outcome | Awaitable[Outcome]]:
    wanted = yield from entries_of(message.resources, _alteration, Pace(), lambda each: len(each.configs))
    if wanted is None:
        return (
            yield from refused(
                message.resources,
                lambda each, error, why: AlterConfigsResourceResponse(
                    error, why, each.resource_type, each.resource_name
                ),
                lambda each: AlterConfigsResponse(responses=each),
            )
        )
    return _alter(
        IncrementalAlterConfigs(tuple(wanted), message.validate_only, replaces=True), context, broker
    )


async def _alter(command: IncrementalAlterConfigs, context: RequestContext, broker: Broker) -> Outcome:
    return outcome_of(_results(await broker.control.apply(command, wire_actor(context, broker))))


def _results(outcomes: list[ResourceOutcome]) -> Slices[Outcome]:
    responses = yield from mapped(
        lambda each: AlterConfigsResourceResponse(
            each.error, each.message, each.resource.type, each.resource.name
        ),
        outcomes,
        Pace(),
    )
    return Answered(AlterConfigsResponse(responses=responses))


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    return ConfigAlteration(
        ConfigResource(resource.resource_type, resource.resource_name),
        tuple(ConfigOp(config.name, OpType.SET, config.value) for config in resource.configs),
    )
