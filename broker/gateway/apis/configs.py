"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources at the gateway: client
metrics are the gateway's, and a client changes what its role allows.

A request that the upstream cluster answers whole is forwarded untouched. Any other is split: the handlers of
`broker.api` answer for client metrics, with the roles of `wire.role`; the gateway refuses what needs a higher
role where it logs clients in (`apis.roles`), and changes of the gateways' own topics; and the upstream
cluster answers for everything else. It is asked first: if its connection closes, nothing has changed here.

ListConfigResources 0 lists client metrics only, so that no upstream broker is asked, and brokers before 3.7
need not know the API. In version 1, a request for other types is forwarded untouched; of a request for
several or all types, the upstream cluster lists all but the client metrics. (KIP-714, KIP-1142)
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from copy import copy
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

from broker.api import (
    a32_describe_configs,
    a33_alter_configs,
    a44_incremental_alter_configs,
    a74_list_config_resources,
)
from broker.api.registry import begun
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices
from broker.api.requests.pacing import consumed
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import Slices
from broker.controller.commands import ResourceType
from broker.controller.configs import ROLES
from broker.gateway.apis.asking import (
    Handle,
    ask,
    decides,
    encoded,
    forward,
    in_own_task,
    in_slices_too,
    may_name_reserved,
    reply_of,
)
from broker.gateway.apis.own_topics import CODE, MESSAGE
from broker.gateway.apis.roles import Roles
from broker.gateway.own_topics import is_ours as is_name_of_ours
from broker.gateway.routes import Answers, AnswersVersion
from broker.metadata.actor import Role
from broker.network.connection.channel import Channel
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import response_class
from broker.protocol.messages import alter_configs, incremental_alter_configs
from broker.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

OURS: Final = ResourceType.CLIENT_METRICS
OUR_TYPE: Final = bytes((OURS,))

ONLY_CLIENT_METRICS: Final = 0
"""The version that lists nothing else."""

UNKNOWN_TYPE: Final = Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
"""What a change of a resource that only a later Kafka has needs."""


class ConfigApi(NamedTuple):
    """`ours` is the handler of `broker.api`, `results` the name of the response's list, `result` the class of
    a change's result.
    """

    ours: Handle
    results: str
    result: Callable[[int, str | None, int, str], Any] | None = None


CONFIG_APIS: Final = {
    ApiKey.DESCRIBE_CONFIGS: ConfigApi(begun(a32_describe_configs.handle), "results"),
    ApiKey.ALTER_CONFIGS: ConfigApi(
        begun(a33_alter_configs.handle), "responses", alter_configs.AlterConfigsResourceResponse
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigApi(
        begun(a44_incremental_alter_configs.handle),
        "responses",
        incremental_alter_configs.AlterConfigsResourceResponse,
    ),
}


class ConfigResources:
    """Decides whether the gateway answers for each resource of a request: with `answers_client_metrics`, the
    gateway for these.
    """

    def __init__(self, roles: Roles, *, answers_client_metrics: bool) -> None:
        self._roles = roles
        self._has_ours = answers_client_metrics

    def answers(self, key: ApiKey) -> AnswersVersion:
        """Return the answer for all versions: whether the upstream cluster does not answer for all of it."""
        changes = CONFIG_APIS[key].result is not None

        def may_be_ours(frame: memoryview | None, channel: Channel) -> bool:
            is_limited = changes and (self._roles.of(channel) < Role.ADMIN or may_name_reserved(frame))
            return is_limited or (self._has_ours and (frame is None or OUR_TYPE in bytes(frame)))

        def is_ours(message: Any, channel: Channel) -> bool:
            role = self._roles.of(channel)
            return any(
                self._is_ours(each) or (changes and (role < needed(each)[0] or _is_own(each)))
                for each in message.resources
            )

        return lambda version: decides(key, version, is_ours, may_be_ours)

    def handler(self, key: ApiKey) -> Handle:
        """Return the handler of one of the three APIs."""
        api = CONFIG_APIS[key]

        def handle(
            message: Any, context: RequestContext, services: ControlServices
        ) -> Outcome | Awaitable[Outcome]:
            return in_slices(self._divide(api, message, context, services))

        return handle

    def _is_ours(self, resource: Any) -> bool:
        return self._has_ours and resource.resource_type == OURS

    def _divide(
        self, api: ConfigApi, message: Any, context: RequestContext, services: ControlServices
    ) -> Slices[Outcome | Awaitable[Outcome]]:
        role = self._roles.of(context.connection)
        ours: list[Any] = []
        theirs: list[Any] = []
        refused: list[Any] = []
        for each in message.resources:
            if self._is_ours(each):
                ours.append(each)
            elif api.result is not None and role < needed(each)[0]:
                refused.append(self._refusal(api.result, each, context))
            elif api.result is not None and _is_own(each):
                refused.append(api.result(CODE, MESSAGE, each.resource_type, each.resource_name))
            else:
                theirs.append(each)
            yield None
        if not ours and not refused:
            return in_own_task(partial(forward, context, message))
        if not theirs and not refused:
            return api.ours(message, context, services)
        return in_own_task(partial(_split, api, message, (ours, theirs, refused), context, services))

    def _refusal(self, result: Callable[..., Any], resource: Any, context: RequestContext) -> Any:
        role, code = needed(resource)
        reason = self._roles.lacks(context.connection, role)
        return result(code, reason, resource.resource_type, resource.resource_name)


def _is_own(resource: Any) -> bool:
    return resource.resource_type == ResourceType.TOPIC and is_name_of_ours(resource.resource_name)


def needed(resource: Any) -> tuple[Role, ErrorCode]:
    """Return the role that a change of a resource needs, and the error of a client without it."""
    return ROLES.get(resource.resource_type, UNKNOWN_TYPE)


async def _split(
    api: ConfigApi,
    message: Any,
    divided: tuple[list[Any], list[Any], list[Any]],
    context: RequestContext,
    services: ControlServices,
) -> Outcome:
    ours, theirs, refused = divided
    reply = await ask(context, _with(message, theirs)) if theirs else response_class(message.API_KEY)()
    results = [*getattr(reply, api.results), *refused]
    if ours:
        answer = await reply_of(api.ours(_with(message, ours), context, services))
        results += getattr(answer, api.results)
    setattr(reply, api.results, await run_slices(_in_order(message.resources, results)))
    return in_slices_too(Response(reply))


def _with(message: Any, resources: list[Any]) -> Any:
    some = copy(message)
    some.resources = resources
    return some


def _in_order(resources: Sequence[Any], results: Sequence[Any]) -> Generator[None, None, list[Any]]:
    """Return the results in the order of the request's resources, and yield after every slice of them.

    A resource may occur several times.
    """
    first: dict[tuple[int, str], int] = {}
    following: dict[int, int] = {}
    for at in range(len(results) - 1, -1, -1):
        key = results[at].resource_type, results[at].resource_name
        if (behind := first.get(key)) is not None:
            following[at] = behind
        first[key] = at
        yield
    ordered = []
    is_left = bytearray(b"\1") * len(results)
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        found = first.pop(key, None)
        if found is not None:
            ordered.append(results[found])
            is_left[found] = 0
            if found in following:
                first[key] = following.pop(found)
        yield
    while first:  # the end of this function would free 30,000 keys in 3 ms
        first.popitem()
        yield
    return [*ordered, *compress(results, is_left)]


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


def handle_list(
    message: ListConfigResourcesRequest, context: RequestContext, services: ControlServices
) -> Outcome | Awaitable[Outcome]:
    if context.api_version == ONLY_CLIENT_METRICS or set(message.resource_types) == {OURS}:
        return in_slices(a74_list_config_resources.handle(message, context, services))
    return in_own_task(partial(_list, message.resource_types, context, services))


async def _list(wanted: list[int], context: RequestContext, services: ControlServices) -> Outcome:
    theirs = [each for each in wanted if each != OURS]
    reply: ListConfigResourcesResponse = await ask(context, ListConfigResourcesRequest(theirs))
    if reply.error_code != ErrorCode.NONE or (wanted and OURS not in wanted):
        return encoded(Response(reply), len(reply.config_resources))
    own = a74_list_config_resources.handle(ListConfigResourcesRequest([OURS]), context, services)
    listed = await reply_of(in_slices(own))
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
