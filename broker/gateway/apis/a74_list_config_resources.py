"""ListConfigResources at the gateway: lists its own client metrics, and the upstream cluster's resources.

Version 0 lists client metrics only, so that no upstream broker is asked, and brokers before 3.7 need not know
the API. In version 1, a request for other types is forwarded untouched; of a request for several or all
types, the upstream cluster lists all but the client metrics. (KIP-714, KIP-1142)
"""

from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any, Final

from broker.api import a74_list_config_resources as local
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices
from broker.api.requests.pacing import consumed
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.controller.commands import ResourceType
from broker.gateway.apis.deciding import decides
from broker.gateway.apis.work import encoded, in_own_task, reply_of
from broker.gateway.asking import ask
from broker.gateway.routes import Answers
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

OURS: Final = ResourceType.CLIENT_METRICS
ONLY_CLIENT_METRICS: Final = 0
"""The version that lists nothing else."""


def answers_list(version: int) -> Answers:
    """Return the answer for a version: whether client metrics are among what a request lists."""
    if version == ONLY_CLIENT_METRICS:
        return lambda _frame, _channel: True
    return decides(
        ApiKey.LIST_CONFIG_RESOURCES,
        version,
        lambda message, _channel: not message.resource_types or OURS in message.resource_types,
        lambda _frame, _channel: True,
    )


def handle(
    message: ListConfigResourcesRequest, context: RequestContext, services: ControlServices
) -> Outcome | Awaitable[Outcome]:
    if context.api_version == ONLY_CLIENT_METRICS or set(message.resource_types) == {OURS}:
        return in_slices(local.handle(message, context, services))
    return in_own_task(partial(_list, message.resource_types, context, services))


async def _list(wanted: list[int], context: RequestContext, services: ControlServices) -> Outcome:
    theirs = [each for each in wanted if each != OURS]
    reply: ListConfigResourcesResponse = await ask(context, ListConfigResourcesRequest(theirs))
    if reply.error_code != ErrorCode.NONE or (wanted and OURS not in wanted):
        return encoded(Response(reply), len(reply.config_resources))
    listed = await reply_of(in_slices(local.handle(ListConfigResourcesRequest([OURS]), context, services)))
    found = await run_slices(_of_others(reply.config_resources))
    reply.config_resources = [*found, *listed.config_resources]
    return encoded(Response(reply), len(reply.config_resources))


def _of_others(resources: list[Any]) -> Generator[None, None, list[Any]]:
    """Return the resources that are not the gateway's, and empty the list."""
    found: list[Any] = []
    for some in consumed(resources):
        found += (each for each in some if each.resource_type != OURS)
        yield
    return found
