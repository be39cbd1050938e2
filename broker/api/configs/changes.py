"""Applies AlterConfigs and IncrementalAlterConfigs, whose messages differ in two fields only.

Each handler passes its differences in a `ConfigChanges`. The request is read and the response is built in
slices.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from broker.api.configs.authorization import MESSAGES, config_refusal
from broker.api.requests.change_limits import entries_of, refused, results_of
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices, outcome_of
from broker.api.requests.pacing import Pace
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    ResourceOutcome,
)
from broker.protocol.schema import Struct
from broker.records.slices import Slices
from broker.security.acl.acl import Operation


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
) -> Outcome | Awaitable[Outcome]:
    """Apply the changes of `resources`; too many resources get POLICY_VIOLATION each."""
    return in_slices(_read(changes, resources, validate_only, context, services))


def _read(
    changes: ConfigChanges,
    resources: Sequence[Any],
    validate_only: bool,
    context: RequestContext,
    services: ControlServices,
) -> Slices[Outcome | Awaitable[Outcome]]:
    def alteration(resource: Any) -> ConfigAlteration:
        return ConfigAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            tuple(changes.operation(config) for config in resource.configs),
        )

    wanted = yield from entries_of(resources, alteration, Pace(), lambda each: len(each.configs))
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
    pace = Pace()
    for each in wanted:
        kind, name = each.resource.type, each.resource.name
        error = config_refusal(kind, name, Operation.ALTER_CONFIGS, context, services.security)
        if error:
            denied.append(ResourceOutcome(error, MESSAGES[error], each.resource))
        else:
            allowed.append(each)
        if pace.spent():
            yield None
    return _alter(changes, allowed, denied, validate_only, context, services)


async def _alter(
    changes: ConfigChanges,
    wanted: list[ConfigAlteration],
    denied: list[ResourceOutcome],
    validate_only: bool,
    context: RequestContext,
    services: ControlServices,
) -> Outcome:
    command = IncrementalAlterConfigs(tuple(wanted), validate_only, replaces=changes.replaces)
    outcomes = await services.control.apply(command, services.security.actor(context, authorized=True))
    del command
    outcomes += denied
    return outcome_of(_results(changes, outcomes, wanted))


def _results(
    changes: ConfigChanges, outcomes: list[ResourceOutcome], done: list[ConfigAlteration]
) -> Slices[Outcome]:
    responses = yield from results_of(
        lambda each: changes.result(each.error, each.message, each.resource.type, each.resource.name),
        outcomes,
        done,
        Pace(),
    )
    return Response(changes.reply(responses))
