"""GET /throttled-channels and /throttled-channels:recent: throttles of now, and of the last hour."""

from typing import Final

from broker.controller.rows.connections import ThrottledRow
from webui.live.snapshot import throttled_json
from webui.live.throttled import RECENT_THROTTLES, ThrottledClient
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import COUNT, TIME
from webui.tables.answers import schema_of
from webui.tables.listing import Table

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


async def recent_throttles(call: Call) -> Reply:
    console = call.console
    rows = console.live.recent_throttles.rows(console.now_ms())
    return Reply(await table_page(call, RECENT_THROTTLES, rows))


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
        query=page_query(RECENT_THROTTLES),
    ),
)
