"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs at the gateway: client metrics are the gateway's.

A request without client metrics resources is forwarded untouched. One with them is split: the handlers of
`broker.api` answer for client metrics, with the roles of `wire.role`, and the upstream cluster for everything
else, with its own authorization. It is asked first: if its connection closes, nothing has changed here.
Changes of the gateways' own topics are refused.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from copy import copy
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

from broker.api import a32_describe_configs, a33_alter_configs, a44_incremental_alter_configs
from broker.api.context import RequestContext
from broker.api.outcome import Outcome, Response
from broker.api.pacing import Pace
from broker.api.services import ControlServices
from broker.control.commands import ResourceType
from broker.errors import ProtocolViolation
from broker.gateway.apis.own_topics import CODE, MESSAGE
from broker.gateway.apis.work import forward, in_own_task, in_slices_too, reply_of
from broker.gateway.asking import ask, in_turns
from broker.gateway.own_topics import is_ours
from broker.gateway.routes import Answers
from broker.protocol.api_key import ApiKey, request_header_version
from broker.protocol.client_id import client_id_and_body
from broker.protocol.codec import decode_request
from broker.protocol.messages import alter_configs, incremental_alter_configs
from broker.protocol.messages.describe_configs import DescribeConfigsResponse

OURS: Final = ResourceType.CLIENT_METRICS
OUR_TYPE: Final = bytes((OURS,))

Handle = Callable[[Any, RequestContext, ControlServices], Outcome | Awaitable[Outcome]]


class ConfigApi(NamedTuple):
    """`ours` is the handler of `broker.api`, `results` the name of the response's list, `response` its class
    and `refused` that of the result of a refused change, None if nothing is changed.
    """

    ours: Handle
    results: str
    response: type
    refused: type | None = None


CONFIG_APIS: Final = {
    ApiKey.DESCRIBE_CONFIGS: ConfigApi(a32_describe_configs.handle, "results", DescribeConfigsResponse),
    ApiKey.ALTER_CONFIGS: ConfigApi(
        a33_alter_configs.handle,
        "responses",
        alter_configs.AlterConfigsResponse,
        alter_configs.AlterConfigsResourceResponse,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigApi(
        a44_incremental_alter_configs.handle,
        "responses",
        incremental_alter_configs.IncrementalAlterConfigsResponse,
        incremental_alter_configs.AlterConfigsResourceResponse,
    ),
}


def answers_configs(key: ApiKey, version: int) -> Answers:
    """Return a function that tells whether the gateway answers a request. A large one is always taken."""
    flexible = request_header_version(key, version) == 2
    decode = decode_request(key, version)

    def answers(frame: memoryview | None) -> bool:
        if frame is None:
            return True
        if OUR_TYPE not in bytes(frame):
            return False
        try:
            _, body = client_id_and_body(frame, flexible)
            message: Any = decode(frame, body)
        except ProtocolViolation:
            return True  # the handler closes the connection
        return any(each.resource_type == OURS for each in message.resources)

    return answers


def handler(key: ApiKey, *, has_client_metrics: bool) -> Handle:
    """Return the handler of one of the three APIs."""
    api = CONFIG_APIS[key]

    def handle(
        message: Any, context: RequestContext, services: ControlServices
    ) -> Outcome | Awaitable[Outcome]:
        ours = [each for each in message.resources if has_client_metrics and each.resource_type == OURS]
        refused = [each for each in message.resources if api.refused is not None and _is_own(each)]
        if len(ours) == len(message.resources) and ours:
            return api.ours(message, context, services)
        if not ours and not refused:
            return in_own_task(partial(forward, context, message))
        return in_own_task(partial(_split, api, message, ours, refused, context, services))

    return handle


def _is_own(resource: Any) -> bool:
    return resource.resource_type == ResourceType.TOPIC and is_ours(resource.resource_name)


async def _split(
    api: ConfigApi,
    message: Any,
    ours: list[Any],
    refused: list[Any],
    context: RequestContext,
    services: ControlServices,
) -> Outcome:
    here = {id(each) for each in (*ours, *refused)}
    theirs = [each for each in message.resources if id(each) not in here]
    reply = await ask(context, _with(message, theirs)) if theirs or not refused else api.response()
    results = list(getattr(reply, api.results))
    if ours:
        answer = await reply_of(api.ours(_with(message, ours), context, services))
        results += getattr(answer, api.results)
    if api.refused is not None:
        results += [api.refused(CODE, MESSAGE, each.resource_type, each.resource_name) for each in refused]
    setattr(reply, api.results, await in_turns(_in_order(message.resources, results)))
    return in_slices_too(Response(reply))


def _with(message: Any, resources: list[Any]) -> Any:
    some = copy(message)
    some.resources = resources
    return some


def _in_order(resources: Sequence[Any], results: Sequence[Any]) -> Generator[None, None, list[Any]]:
    """Return the results in the order of the request's resources, and yield after every slice of them.

    A resource may occur several times.
    """
    pace = Pace()
    first: dict[tuple[int, str], int] = {}
    following: dict[int, int] = {}
    for at in range(len(results) - 1, -1, -1):
        key = results[at].resource_type, results[at].resource_name
        if (behind := first.get(key)) is not None:
            following[at] = behind
        first[key] = at
        if pace.spent():
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
        if pace.spent():
            yield
    while first:  # the end of this function would free 30,000 keys in 3 ms
        first.popitem()
        if pace.spent():
            yield
    return [*ordered, *compress(results, is_left)]
