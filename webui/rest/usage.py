"""GET /usage, /throttled-channels and /throttled-channels:recent: use by client, and throttles."""

from typing import Any, Final

from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.quotas import ClientUsage, NodeUse
from broker.views.console import Views
from webui.live.snapshot import throttled_json
from webui.live.throttled import RECENT_THROTTLES, ThrottledClient
from webui.quotas import LIMIT_KEYS, LONGEST_ID, BadId, entity_of
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, NAME, TIME, Invalid, Listing, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Page, Table

THROTTLED: Final = schema_of(ThrottledRow, "ThrottledChannel", since=TIME)
RECENT_THROTTLES_PAGE: Final = page_schema(schema_of(ThrottledClient))
THROTTLED_PAGE: Final = page_schema(THROTTLED, unlisted=COUNT)


def _throttled(now_ms: int) -> Table[ThrottledRow]:
    """Return the table of throttled connections. It sorts by the time at which a throttle ends, since the
    remaining time changes between two pages.
    """
    return Table(
        json=lambda row: throttled_json(row, now_ms),
        search_texts=lambda row: (row.client_id, row.principal, row.address, row.connection_id),
        default_sort="remaining",
        sort_key=lambda row: (-(now_ms + row.remaining_ms), row.gateway, row.connection_id, row.quota_type),
    )


async def throttled_channels(call: Call) -> Reply:
    page = await table_page(call, _throttled(call.console.now_ms()), call.views.quotas.each_throttled())
    return Reply(page | {"unlisted": call.views.shares.unlisted_throttled()})


_RULE: Final = Query(
    "rule", Text(max_length=LONGEST_ID, min_length=1), "Only throttles by this rule, by its id."
)


async def recent_throttles(call: Call) -> Reply:
    console = call.console
    rows = console.live.recent_throttles.rows(console.now_ms())
    if call.query["rule"] is not None:
        try:
            rule = entity_of(call.query["rule"])
        except BadId as error:
            raise Invalid("rule", str(error)) from None
        rows = [row for row in rows if set(row.entity) == set(rule)]
    return Reply(await table_page(call, RECENT_THROTTLES, rows))


_STEPS: Final = Listing(COUNT, max_items=60)

_HISTORY: Final = Record({"step_ms": COUNT, "bytes_in": _STEPS, "bytes_out": _STEPS, "requests": _STEPS})
_NODES: Final = Record(dict.fromkeys(LIMIT_KEYS, Listing(schema_of(NodeUse))), optional=frozenset(LIMIT_KEYS))
USAGE_ROW: Final = Record(
    {**schema_of(ClientUsage).fields, "history": _HISTORY, "nodes": _NODES},
    optional=frozenset({"nodes"}),
    title="ClientUsage",
)

USAGE_PAGE: Final = page_schema(USAGE_ROW, unlisted=COUNT, unheard=Listing(NAME))
"""`unlisted` clients of other gateways are missing: each tells the busiest ones. `unheard` gateways have told
nothing.
"""

STEP_MS: Final = 5_000
"""Time step of the history."""

MAX_UNLIMITED: Final = 8
"""Number of unlimited clients shown on the quotas page."""


def usage_json(row: ClientUsage) -> dict[str, Any]:
    history = row.history()
    bytes_in, bytes_out, requests = zip(*history, strict=True) if history else ((), (), ())
    nodes = {key: [as_json(use) for use in uses] for key, uses in row.nodes.items()}
    steps = {"step_ms": STEP_MS, "bytes_in": bytes_in, "bytes_out": bytes_out, "requests": requests}
    return ({"nodes": nodes} if nodes else {}) | as_json(row) | {"history": steps}


def _bytes(row: ClientUsage) -> float:
    return row.bytes_in_per_s + row.bytes_out_per_s


USAGE: Final = Table(
    json=usage_json,
    search_texts=lambda row: (row.user, row.client_id),
    default_sort="use",
    sort_key=lambda row: (-_bytes(row), row.user, row.client_id),
    sorts={
        "bytes_in": lambda row: row.bytes_in_per_s,
        "bytes_out": lambda row: row.bytes_out_per_s,
        "requests": lambda row: row.requests_per_s,
        "request_percentage": lambda row: row.request_percentage,
        "connections": lambda row: row.connections,
        "active": lambda row: row.last_active_at_ms,
    },
    filters={
        "unlimited": lambda row: not row.limited_by,
        "limited": lambda row: bool(row.limited_by),
        "idle": lambda row: not row.connections,
    },
)

UNLIMITED: Final = Page(filter="unlimited", limit=MAX_UNLIMITED)


async def usage(call: Call) -> Reply:
    page = await table_page(call, USAGE, call.views.quotas.each_usage())
    return Reply(page | missing_clients(call.views))


def missing_clients(views: Views) -> dict[str, Any]:
    """Return what is missing of the clients of other gateways."""
    return {"unlisted": views.shares.unlisted_clients(), "unheard": sorted(views.shares.without_report())}


ROUTES: Final = (
    Route(
        "GET /api/v1/throttled-channels",
        "listThrottledChannels",
        "Throttled connections, the longest remaining throttle first. Where gateways share limits, those of "
        "the others, too: of each the longest ones, as of its last report.",
        throttled_channels,
        {
            200: ResponseSpec(
                "A page of connections; `unlisted` counts those of other gateways that are missing",
                THROTTLED_PAGE,
            )
        },
        query=page_query(_throttled(0)),
    ),
    Route(
        "GET /api/v1/throttled-channels:recent",
        "listRecentThrottles",
        "Clients throttled in the last hour, with rule, number of throttles and longest throttle.",
        recent_throttles,
        {
            200: ResponseSpec(
                "A page of clients; throttles shorter than a second may be missing", RECENT_THROTTLES_PAGE
            )
        },
        query=(_RULE, *page_query(RECENT_THROTTLES)),
    ),
    Route(
        "GET /api/v1/usage",
        "listUsage",
        "Usage of clients, limited or not, by user and client id, the busiest first: bytes, requests, and "
        "the limits that apply. Where gateways share limits, of all gateways: `gateways` names the others "
        "whose use is included, `unlisted` counts their clients that are missing, and `unheard` gateways "
        "have told nothing.",
        usage,
        {200: ResponseSpec("A page of clients; the clients idle longest are dropped", USAGE_PAGE)},
        query=page_query(USAGE),
    ),
)
