"""ApiVersions at the gateway, in the versions in which a client states the cluster and the node that it means
to reach. (KIP-1242)

The client knows the upstream cluster's id and nodes, at the addresses of this gateway. So the gateway checks
what it states: the id of the upstream cluster, and the node whose port, or whose name in TLS, the client has
connected to. A client that has them from elsewhere gets REBOOTSTRAP_REQUIRED, whether or not the upstream
cluster can be reached. Otherwise the upstream broker is asked in a version without them, which it knows
although it may be older. What its answer becomes is kept: many clients connect, and few answers differ.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, cast

import msgspec

from broker.api.a18_api_versions import is_valid
from broker.api.registry import Api, load
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import EncodedResponse, Outcome, Response
from broker.common.errors import ErrorCode
from broker.gateway.api_versions import Forwardable, Versions, is_refused, limit
from broker.gateway.apis.asking import ask_whole, in_own_task
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import INT32, decoded, encoded
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.protocol.schema import Buffer
from broker.quotas.throttled import Throttle

ASKED_VERSIONS: Final = (4, 3, 0)
"""The versions in which the upstream broker is asked: the next one if it does not know one. (KIP-511)"""

KEPT_ANSWERS: Final = 64
"""Answers that are kept, of 16 kB at most; ours. Brokers of one release with the same features give the same.
"""


@dataclass(frozen=True)
class ClientsView:
    """What a client sees of the gateway. `cluster_id` returns None while the gateway does not know it, and
    `node_of` for a connection that is not to a certain node. `local` and `missing` are those of
    `api_versions.intersect`, `versions_of` takes the name of a listener.
    """

    cluster_id: Callable[[], str | None]
    node_of: Callable[[GatewayChannel], int | None]
    local: Callable[[], dict[int, Versions]]
    missing: Callable[[], dict[int, Versions]]
    versions_of: Callable[[str], Forwardable]


class Answers:
    """What clients of a listener are answered, by what the upstream broker has answered."""

    def __init__(self, view: ClientsView) -> None:
        self._view = view
        self._kept = lru_cache(KEPT_ANSWERS)(self._behind)

    def frame(self, listener: str, version: int, asked: int, upstream: Buffer) -> bytes | None:
        """Return the whole response in `version`, with its size; None if it is an error. `upstream` is the
        response in version `asked`, without its size. Raises ProtocolViolation if that is damaged.
        """
        behind = self._kept(listener, version, asked, bytes(upstream[4:]))
        return behind and b"".join((INT32.pack(len(behind) + 4), upstream[:4], behind))

    def message(self, listener: str, asked: int, upstream: Buffer) -> ApiVersionsResponse:
        """Return the response. Raises ProtocolViolation."""
        reply, _ = decoded(upstream, ApiKey.API_VERSIONS, asked)
        limit(reply, self._view.local(), self._view.missing(), self._view.versions_of(listener))
        return cast(ApiVersionsResponse, reply)

    def _behind(self, listener: str, version: int, asked: int, upstream: bytes) -> bytes | None:
        """Return the response behind its correlation id; `upstream` begins there, too."""
        reply = self.message(listener, asked, bytes(4) + upstream)
        return None if reply.error_code else encoded(reply, version, 0)[8:]


def entry(view: ClientsView) -> Api:
    """Return the API for the registry of a gateway."""
    at_broker = load().get(ApiKey.API_VERSIONS)
    assert at_broker is not None
    return msgspec.structs.replace(at_broker, handle=partial(_handle, view, Answers(view)))


def _handle(
    view: ClientsView,
    answers: Answers,
    message: ApiVersionsRequest,
    context: RequestContext,
    _services: object,
) -> Outcome | Awaitable[Outcome]:
    if not is_valid(message):
        return Response(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    channel = context.connection
    assert isinstance(channel, GatewayChannel)
    if message.cluster_id is not None:
        cluster_id = view.cluster_id()
        is_here = cluster_id is None or message.cluster_id == cluster_id
        if not is_here or view.node_of(channel) != message.node_id:
            return Response(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    return in_own_task(partial(_ask, answers, message, context))


async def _ask(answers: Answers, message: ApiVersionsRequest, context: RequestContext) -> Outcome:
    name, software_version = message.client_software_name, message.client_software_version
    for version in ASKED_VERSIONS:
        upstream = await ask_whole(context, ApiVersionsRequest(name, software_version), version)
        if not is_refused(upstream):
            break
    connection = context.connection
    frame = answers.frame(connection.listener, context.api_version, version, upstream)
    assert isinstance(connection, GatewayChannel)
    connection.know_software(name, software_version)

    def throttled(throttle: Throttle) -> Response:
        reply = answers.message(connection.listener, version, upstream)
        reply.throttle_time_ms = max(reply.throttle_time_ms, throttle.throttle_ms)
        return Response(reply, throttle)

    if frame is None:
        return Response(answers.message(connection.listener, version, upstream))
    return EncodedResponse(frame, None, withhold=throttled)
