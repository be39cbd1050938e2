"""GET /overview, /throttled-channels, /usage, /tasks, /metrics, /healthz, /readyz: read-only monitoring."""

from typing import Final

from broker.control.views import ThrottledRow
from webui.live.history import KEPT_S
from webui.live.throttled import HELD
from webui.quotas import usage as clients
from webui.rest.answers import HELD_LATELY, OVERVIEW, TASK, THROTTLED, USAGE
from webui.rest.problem import Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route, page_of, page_query
from webui.rest.schema import Listing, Number
from webui.tables.json_output import held_channel_json, overview_json, task_json
from webui.tables.listing import Page, Table
from webui.tables.slices import gathered

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"
MAX_ROWS: Final = 5_000

_LIMIT = Query(
    "limit", Number(integer=True, least=1, most=MAX_ROWS), "Maximum number of rows.", default=1_000
)


async def overview(call: Call) -> Reply:
    console = call.console
    answer = overview_json(console.backend.views.overview(), console.now_ms())
    columns = await gathered(console.live.history.columns(call.query["history"]), at_once=1)
    return Reply(answer | {"history": dict(columns)})


async def throttled_channels(call: Call) -> Reply:
    views, now_ms = call.console.backend.views, call.console.now_ms()
    table: Table[ThrottledRow] = Table(
        json=lambda row: held_channel_json(row, now_ms),
        words=lambda row: (),
        natural="remaining",
        order=lambda row: -row.remaining_ms,
    )
    cut = await table.cut(views.each_throttled(), Page(limit=call.query["limit"]))
    return Reply(cut["items"], headers={"X-Total-Count": str(cut["total"])})


async def held_lately(call: Call) -> Reply:
    console = call.console
    return Reply(await HELD.cut(console.live.held.rows(console.now_ms()), page_of(call.query)))


async def usage(call: Call) -> Reply:
    return Reply(await clients.USAGE.cut(call.console.backend.views.each_usage(), page_of(call.query)))


async def tasks(call: Call) -> Reply:
    return Reply([task_json(row) for row in call.console.backend.views.tasks()])


async def metrics(call: Call) -> Reply:
    pieces = await gathered(call.console.backend.metrics(), at_once=1)
    return Reply(b"".join(pieces), media=PROMETHEUS)


async def healthz(call: Call) -> Reply:
    return Reply(b"ok\n", media=PLAIN)


async def readyz(call: Call) -> Reply:
    if not call.console.backend.ready():
        raise Problem(503, "The broker is starting or stopping and does not serve Kafka clients.")
    return Reply(b"ready\n", media=PLAIN)


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/overview",
        "getOverview",
        "The broker's current metrics, and optionally their history.",
        overview,
        {200: Answer("The current metrics", OVERVIEW)},
        query=(
            Query(
                "history",
                Number(integer=True, least=0, most=KEPT_S),
                "Length of the history in seconds: in steps of one second up to 15 minutes, ten seconds up "
                "to an hour, of a minute up to a day.",
                default=0,
            ),
        ),
    ),
    Route(
        "GET",
        "/api/v1/throttled-channels",
        "listThrottledChannels",
        "Throttled connections, the longest remaining throttle first.",
        throttled_channels,
        {
            200: Answer(
                "The connections; X-Total-Count is their total number", Listing(THROTTLED, most=MAX_ROWS)
            )
        },
        query=(_LIMIT,),
    ),
    Route(
        "GET",
        "/api/v1/throttled-channels:recent",
        "listHeldLately",
        "Clients throttled in the last hour, with rule, number of throttles and longest throttle.",
        held_lately,
        {200: Answer("A page of clients; throttles shorter than a second may be missing", HELD_LATELY)},
        query=page_query(HELD),
    ),
    Route(
        "GET",
        "/api/v1/usage",
        "listUsage",
        "Usage of clients, limited or not, by user and client id, the busiest first: bytes, requests, and "
        "the limits that apply.",
        usage,
        {200: Answer("A page of clients; the clients idle longest are dropped", USAGE)},
        query=page_query(clients.USAGE),
    ),
    Route(
        "GET",
        "/api/v1/tasks",
        "listTasks",
        "The broker's task tree, named after Kafka's threads: resources and idle share of each task.",
        tasks,
        {200: Answer("The tasks, parents first", Listing(TASK))},
    ),
    Route(
        "GET",
        "/metrics",
        "getMetrics",
        "All metrics, for Prometheus.",
        metrics,
        {200: Answer("Prometheus text format 0.0.4", media=PROMETHEUS)},
    ),
    Route(
        "GET",
        "/healthz",
        "isAlive",
        "Whether the process runs its event loop.",
        healthz,
        {200: Answer("It does", media=PLAIN)},
        public=True,
    ),
    Route(
        "GET",
        "/readyz",
        "isReady",
        "Whether the broker serves Kafka clients.",
        readyz,
        {200: Answer("They are", media=PLAIN)},
        public=True,
    ),
)
