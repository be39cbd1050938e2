"""GET /upstream, /gateways and /gateway-shares: the upstream cluster of a gateway, and the gateways in front
of it. A broker answers them with 404.
"""

from typing import Any, Final, NoReturn

from broker.controller.rows.upstream import (
    GatewayRow,
    ShareRow,
    UpstreamCondition,
    UpstreamLatency,
    UpstreamNodeRow,
    UpstreamRow,
)
from broker.views.views import Views
from webui.problem import PROBLEM, Problem
from webui.problem_types import NOT_SERVED
from webui.rest.entity_schema import ENTITY
from webui.rest.paging import list_page, list_query, page_query, page_schema, table_page
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import COUNT, MAYBE, NAME, RATE, TIME, Flag, Listing, Maybe, Number, Record, Text
from webui.tables.json_output import finite, named, utc
from webui.tables.listing import Table

_CONDITION: Final = Text(choices=tuple(UpstreamCondition))

NODE: Final = Record(
    {
        "node_id": COUNT,
        "address": NAME,
        "rack": NAME,
        "condition": _CONDITION,
        "since": TIME,
        "error": NAME,
        "latency_ms": MAYBE,
        "connections": COUNT,
        "bytes_in": COUNT,
        "bytes_out": COUNT,
        "bytes_in_per_s": RATE,
        "bytes_out_per_s": RATE,
        "addresses": Listing(Record({"listener": NAME, "address": NAME, "open": Flag()})),
    }
)

LATENCY: Final = Record({"api": Text(), "requests": COUNT, "p50_ms": MAYBE, "p99_ms": MAYBE, "waits": Flag()})

UPSTREAM: Final = Record(
    {
        "cluster_id": NAME,
        "expected_id": NAME,
        "condition": _CONDITION,
        "since": TIME,
        "error": NAME,
        "bootstrap_servers": Listing(NAME),
        "controller_id": Number(integer=True),
        "nodes": Listing(NODE),
        "latencies": Listing(LATENCY),
        "turn_ms": MAYBE,
        "loopback": Listing(Record({"listener": NAME, "address": NAME, "remote_connections": COUNT})),
        "unwritten": Listing(Record({"topic": NAME, "error": NAME})),
    },
    title="Upstream",
)

TRAFFIC: Final = Record(
    {
        "connections": COUNT,
        "throttled": COUNT,
        "bytes_in": COUNT,
        "bytes_out": COUNT,
        "requests": COUNT,
        "bytes_in_per_s": RATE,
        "bytes_out_per_s": RATE,
        "requests_per_s": RATE,
    }
)

GATEWAY: Final = Record(
    {"gateway_id": NAME, "address": NAME, "heard_at": Maybe(TIME), "traffic": Maybe(TRAFFIC)}, title="Gateway"
)

SHARE: Final = Record(
    {
        "gateway_id": NAME,
        "entity": Record(ENTITY.fields, optional=ENTITY.optional),
        "key": Text(),
        "limit": RATE,
        "demand": RATE,
        "share": RATE,
    },
    title="GatewayShare",
)


def upstream_json(row: UpstreamRow) -> dict[str, Any]:
    return {
        "cluster_id": row.cluster_id,
        "expected_id": row.expected_id,
        "condition": row.condition,
        "since": utc(row.since_at_ms),
        "error": row.error,
        "bootstrap_servers": list(row.bootstrap_servers),
        "controller_id": row.controller_id,
        "nodes": [node_json(node) for node in row.nodes],
        "latencies": [latency_json(each) for each in row.latencies],
        "turn_ms": finite(row.turn_ms),
        "loopback": [named(each) for each in row.loopback],
        "unwritten": [{"topic": topic, "error": error} for topic, error in row.unwritten],
    }


def node_json(row: UpstreamNodeRow) -> dict[str, Any]:
    fields = named(row)
    fields["since"] = utc(fields.pop("since_at_ms"))
    addresses = [
        {"listener": each.listener, "address": each.address, "open": each.is_open} for each in row.addresses
    ]
    return fields | {"addresses": addresses}


def latency_json(row: UpstreamLatency) -> dict[str, Any]:
    return named(row) | {"p50_ms": finite(row.p50_ms), "p99_ms": finite(row.p99_ms)}


def gateway_json(row: GatewayRow) -> dict[str, Any]:
    heard_at = None if row.heard_at_ms is None else utc(row.heard_at_ms)
    traffic = None if row.traffic is None else named(row.traffic)
    return {"gateway_id": row.gateway_id, "address": row.address, "heard_at": heard_at, "traffic": traffic}


def share_json(row: ShareRow) -> dict[str, Any]:
    return named(row) | {"entity": dict(row.entity)}


SHARES: Final[Table[ShareRow]] = Table(
    json=share_json,
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
    """Return the live report of the page: `upstream` is null for a broker."""
    row = views.upstream()
    return {
        "upstream": None if row is None else upstream_json(row),
        "gateways": [gateway_json(each) for each in views.gateways()],
    }


def refuse_for_gateway(views: Views, resource: str) -> None:
    """Raise Problem 404 if `what` is the upstream cluster's."""
    if views.is_gateway:
        raise Problem(404, f"This is a gateway: {resource} are the upstream cluster's.", kind=NOT_SERVED)


def _is_broker() -> NoReturn:
    raise Problem(404, "This is a broker: it has no upstream cluster.", kind=NOT_SERVED)


async def upstream(call: Call) -> Reply:
    row = call.console.backend.views.upstream()
    if row is None:
        _is_broker()
    return Reply(upstream_json(row))


async def gateways(call: Call) -> Reply:
    views = call.console.backend.views
    if not views.is_gateway:
        _is_broker()
    return Reply(await list_page(call, views.gateways(), gateway_json, lambda row: row.gateway_id))


async def shares(call: Call) -> Reply:
    views = call.console.backend.views
    if not views.is_gateway:
        _is_broker()
    return Reply(await table_page(call, SHARES, views.each_share()))


GATEWAY_PAGE: Final = page_schema(GATEWAY)
SHARE_PAGE: Final = page_schema(SHARE)
_NONE: Final = ResponseSpec("This is a broker, which has no upstream cluster", PROBLEM)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/upstream",
        "getUpstream",
        "The upstream cluster of a gateway: its nodes, their state and traffic, and their latency apart from "
        "the gateway's.",
        upstream,
        {200: ResponseSpec("The upstream cluster", UPSTREAM), 404: _NONE},
    ),
    Route(
        "GET",
        "/api/v1/gateways",
        "listGateways",
        "The gateways of the upstream cluster that share limits, this one included, with their traffic.",
        gateways,
        {200: ResponseSpec("A page of gateways; none if limits are not shared", GATEWAY_PAGE), 404: _NONE},
        query=list_query(),
    ),
    Route(
        "GET",
        "/api/v1/gateway-shares",
        "listGatewayShares",
        "Each gateway's demand and share of each limit, per second.",
        shares,
        {200: ResponseSpec("A page of shares", SHARE_PAGE), 404: _NONE},
        query=page_query(SHARES),
    ),
)
