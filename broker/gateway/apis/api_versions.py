"""ApiVersions at the gateway, in the versions in which a client states the cluster and the node that it means
to reach. (KIP-1242)

The client knows the upstream cluster's id and nodes, at the addresses of this gateway. So the gateway checks
what it states: the id of the upstream cluster, and the node whose port, or whose name in TLS, the client has
connected to. A client that has them from elsewhere gets REBOOTSTRAP_REQUIRED, whether or not the upstream
cluster can be reached. Otherwise the upstream broker is asked in a version without them, which it knows
although it may be older.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from broker.api.a18_api_versions import is_valid
from broker.api.registry import Api, load
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.common.errors import ErrorCode
from broker.gateway.api_versions import Forwardable, Versions, is_refused, limit
from broker.gateway.apis.asking import ask_whole, in_own_task
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import decoded
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

ASKED_VERSIONS: Final = (4, 3, 0)
"""The versions in which the upstream broker is asked: the next one if it does not know one. (KIP-511)"""


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


def entry(view: ClientsView) -> Api:
    """Return the API for the registry of a gateway."""
    at_broker = load().get(ApiKey.API_VERSIONS)
    assert at_broker is not None
    return msgspec.structs.replace(at_broker, handle=partial(_handle, view))


def _handle(
    view: ClientsView, message: ApiVersionsRequest, context: RequestContext, _services: object
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
    return in_own_task(partial(_ask, view, message, context))


async def _ask(view: ClientsView, message: ApiVersionsRequest, context: RequestContext) -> Outcome:
    name, software_version = message.client_software_name, message.client_software_version

    def update_connection(connection: Connection) -> None:
        connection.software_name, connection.software_version = name, software_version

    asked = ApiVersionsRequest(name, software_version)
    for version in ASKED_VERSIONS:
        frame = await ask_whole(context, asked, version)
        if not is_refused(frame):
            break
    reply, _ = decoded(frame, ApiKey.API_VERSIONS, version)
    limit(reply, view.local(), view.missing(), view.versions_of(context.connection.listener))
    return Response(reply, update_connection=update_connection)
