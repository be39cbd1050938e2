"""GET /upstream, /gateways and /gateway-shares: the upstream cluster of a gateway, and the gateways in front
of it; GET and POST /gateway/drain. A broker answers them with 404.

`fresh` is for the routes of what a broker has itself and a gateway reads from its upstream cluster, and `now`
for those that change it.
"""

from contextlib import suppress
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from broker.common.errors import ApiError
from broker.controller.commands import DrainGateway, Role
from broker.controller.rows.upstream import DrainRow, GatewayRow, ReadState, ShareRow, UpstreamRow
from broker.views.console import Views
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem
from webui.problem_types import NOT_SERVED
from webui.rest.configs import Config, config_json
from webui.rest.paging import list_page, list_query, page_query, page_schema, table_page
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import Number, Record, Schema
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table

DRAIN: Final = schema_of(DrainRow, "Drain")
UPSTREAM: Final = schema_of(UpstreamRow, "Upstream")
GATEWAY: Final = schema_of(GatewayRow, "Gateway")
SHARE: Final = schema_of(ShareRow, "GatewayShare")
READ_STATE: Final = schema_of(ReadState, "ReadState")

SHARES: Final[Table[ShareRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.gateway_id, row.key, *(name or "<default>" for _, name in row.entity)),
    default_sort="entity",
    sort_key=lambda row: (str(row.entity), row.key, row.gateway_id),
    sorts={
        "gateway": lambda row: row.gateway_id,
        "demand": lambda row: row.demand,
        "share": lambda row: row.share / row.limit if row.limit else 0.0,
        "limit": lambda row: row.limit,
    },
)


def upstream_report(views: Views) -> dict[str, Any]:
    """Return the live report of the page: `upstream` and `drain` are null for a broker."""
    gateways = sorted(views.shares.gateways(), key=lambda row: row.gateway_id)
    return {
        "upstream": None if views.upstream is None else as_json(views.upstream.row()),
        "drain": None if views.upstream is None else as_json(views.upstream.drain()),
        "gateways": [as_json(each) for each in gateways],
    }


async def fresh(call: Call, part: Part, name: str = "") -> dict[str, Any]:
    """Wait until what a gateway shows of its cluster is read, and return what its answer says about that. A
    broker waits for nothing and says nothing. Raises ApiError.
    """
    await call.views.readings.fresh(part, name)
    return read_state(call.views, part, name)


async def now(call: Call, part: Part, name: str = "") -> dict[str, Any]:
    """As `fresh`, of what the cluster says now: the last reading is of some seconds ago."""
    await call.views.readings.now(part, name)
    return read_state(call.views, part, name)


async def fresh_after(call: Call, part: Part, name: str = "") -> None:
    """As `fresh`, for what has been decided: that it cannot be read now is no reason to do it again."""
    with suppress(ApiError):
        await fresh(call, part, name)


def read_state(views: Views, part: Part, name: str = "") -> dict[str, Any]:
    state = views.readings.state(part, name)
    return {} if state is None else {"upstream": as_json(state)}


def read_ms(views: Views, part: Part, now_ms: int) -> int:
    """Return when a part was read, by the wall clock: at a broker now."""
    state = views.readings.state(part)
    return now_ms if state is None or state.read_at_ms is None else state.read_at_ms


def read_schema(record: Record) -> Record:
    """Return the schema of an answer with what `fresh` returned."""
    fields: dict[str, Schema] = {**record.fields, "upstream": READ_STATE}
    return replace(record, fields=fields, optional=record.optional | {"upstream"})


def refuse_for_gateway(views: Views, resource: str) -> None:
    """Raise Problem 404 if `resource` is the upstream cluster's, and not shown."""
    if views.is_gateway:
        raise Problem(404, f"This is a gateway: {resource} are the upstream cluster's.", kind=NOT_SERVED)


def _is_broker() -> NoReturn:
    raise Problem(404, "This is a broker: it has no upstream cluster.", kind=NOT_SERVED)


async def upstream(call: Call) -> Reply:
    source = call.views.upstream
    if source is None:
        _is_broker()
    return Reply(as_json(source.row()))


async def node_configs(call: Call) -> Reply:
    source, node_id = call.views.upstream, call.path_params["node_id"]
    if source is None:
        _is_broker()
    if all(node.node_id != node_id for node in source.row().nodes):
        raise Problem(404, f"The upstream cluster has no node {node_id}.")
    read = await fresh(call, Part.NODE_CONFIGS, str(node_id))
    rows = call.views.metadata.describe_node(node_id)
    return Reply(await list_page(call, rows, config_json, lambda row: row.name) | read)


async def gateways(call: Call) -> Reply:
    if not call.views.is_gateway:
        _is_broker()
    return Reply(await list_page(call, call.views.shares.gateways(), as_json, lambda row: row.gateway_id))


async def shares(call: Call) -> Reply:
    if not call.views.is_gateway:
        _is_broker()
    return Reply(await table_page(call, SHARES, call.views.shares.shares()))


async def drain(call: Call) -> Reply:
    source = call.views.upstream
    if source is None:
        _is_broker()
    return Reply(as_json(source.drain()))


async def begin_drain(call: Call) -> Reply:
    source = call.views.upstream
    if source is None:
        _is_broker()
    outcome = await call.apply(DrainGateway())
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    call.console.live.refresh()
    return Reply(as_json(source.drain()))


GATEWAY_PAGE: Final = page_schema(GATEWAY)
SHARE_PAGE: Final = page_schema(SHARE)
NODE_CONFIGS: Final = read_schema(page_schema(schema_of(Config, "NodeConfig")))
_NONE: Final = ResponseSpec("This is a broker, which has no upstream cluster", PROBLEM)

ROUTES: Final = (
    Route(
        "GET /api/v1/upstream",
        "getUpstream",
        "The upstream cluster of a gateway: its nodes, their state and traffic, and their latency apart from "
        "the gateway's.",
        upstream,
        {200: ResponseSpec("The upstream cluster", UPSTREAM), 404: _NONE},
    ),
    Route(
        "GET /api/v1/upstream/nodes/{node_id}/configs",
        "listUpstreamNodeConfigs",
        "The settings of a node of the upstream cluster, as its DescribeConfigs tells them.",
        node_configs,
        {
            200: ResponseSpec("The settings, by name", NODE_CONFIGS),
            404: ResponseSpec("The cluster has no such node, or this is a broker", PROBLEM),
        },
        query=list_query(),
        path_params=(Query("node_id", Number(integer=True, minimum=0, maximum=2**31 - 1), "The node's id."),),
    ),
    Route(
        "GET /api/v1/gateways",
        "listGateways",
        "The gateways of the upstream cluster that share limits, this one included, with their traffic.",
        gateways,
        {200: ResponseSpec("A page of gateways; none if limits are not shared", GATEWAY_PAGE), 404: _NONE},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/gateway-shares",
        "listGatewayShares",
        "Each gateway's demand and share of each limit, per second or in connections.",
        shares,
        {200: ResponseSpec("A page of shares", SHARE_PAGE), 404: _NONE},
        query=page_query(SHARES),
    ),
    Route(
        "GET /api/v1/gateway/drain",
        "getDrain",
        "Whether this gateway is drained, how many connections are left, and where its clients go.",
        drain,
        {200: ResponseSpec("The state of the gateway", DRAIN), 404: _NONE},
    ),
    Route(
        "POST /api/v1/gateway/drain",
        "drainGateway",
        "Drains this gateway as a stop does, without stopping it: readiness ends, the listeners close, "
        "answers name other gateways, and connections end over gateway.drain.timeout.ms. It serves again "
        "after a restart. A second request changes nothing. Requires the role admin.",
        begin_drain,
        {200: ResponseSpec("The drain has begun", DRAIN), 404: _NONE},
        role=Role.ADMIN,
    ),
)
