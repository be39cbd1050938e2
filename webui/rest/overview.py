"""GET /overview, /tasks, /metrics, /healthz and /readyz: the broker's metrics and tasks, and plain text for
Prometheus and for probes.
"""

from typing import Final

from broker.controller.rows.broker import Overview, TaskRow
from webui.live.attention import ATTENTION
from webui.live.history import KEPT_S, Sample
from webui.live.snapshot import overview_json
from webui.problem import Problem
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import MAYBE, TIME, Listing, Number, Record
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import LONGEST_PAGE
from webui.tables.slices import collect

HISTORY: Final = Record({name: Listing(MAYBE) for name in Sample._fields})

OVERVIEW: Final = schema_of(Overview, "Overview", at=TIME, history=HISTORY)


async def overview(call: Call) -> Reply:
    console = call.console
    answer = overview_json(console.backend.views.overview(), console.now_ms())
    columns = await collect(console.live.history.columns(call.query["history_s"]))
    return Reply(answer | {"history": dict(columns)})


async def attention(call: Call) -> Reply:
    live = call.console.live
    return Reply(await live.reports["attention"].data(call.console.now_ms()))


TASK: Final = schema_of(TaskRow, "Task")
TASK_PAGE: Final = page_schema(TASK)


async def tasks(call: Call) -> Reply:
    # The tree is listed in its own order, parents first.
    rows = enumerate(call.views.live.tasks())
    return Reply(await list_page(call, rows, lambda row: as_json(row[1]), lambda row: row[0]))


PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"


async def metrics(call: Call) -> Reply:
    pieces = await collect(call.console.backend.metrics())
    return Reply(b"".join(pieces), media=PROMETHEUS)


async def healthz(call: Call) -> Reply:
    return Reply(b"ok\n", media=PLAIN)


async def readyz(call: Call) -> Reply:
    if not call.console.backend.ready():
        raise Problem(503, "The broker is starting or stopping and does not serve Kafka clients.")
    return Reply(b"ready\n", media=PLAIN)


ROUTES: Final = (
    Route(
        "GET /api/v1/overview",
        "getOverview",
        "The broker's current metrics, and optionally their history. Where gateways share limits, bytes, "
        "requests, connections and throttled connections in the history are sums of all.",
        overview,
        {200: ResponseSpec("The current metrics", OVERVIEW)},
        query=(
            Query(
                "history_s",
                Number(integer=True, minimum=0, maximum=KEPT_S),
                "Length of the history in seconds: in steps of one second up to 15 minutes, ten seconds up "
                "to an hour, of a minute up to a day.",
                default=0,
            ),
        ),
    ),
    Route(
        "GET /api/v1/attention",
        "getAttention",
        "What needs attention now: alerts that fire, groups that fall behind, and the disks of the logs.",
        attention,
        {200: ResponseSpec("The report, at most two seconds old", ATTENTION)},
    ),
    Route(
        "GET /api/v1/tasks",
        "listTasks",
        "The broker's task tree, named after Kafka's threads: resources and idle share of each task.",
        tasks,
        {200: ResponseSpec("A page of tasks, parents first", TASK_PAGE)},
        query=list_query(limit=LONGEST_PAGE),
    ),
    Route(
        "GET /metrics",
        "getMetrics",
        "All metrics, for Prometheus.",
        metrics,
        {200: ResponseSpec("Prometheus text format 0.0.4", media=PROMETHEUS)},
    ),
    Route(
        "GET /healthz",
        "isAlive",
        "Whether the process runs its event loop.",
        healthz,
        {200: ResponseSpec("It does", media=PLAIN)},
        public=True,
    ),
    Route(
        "GET /readyz",
        "isReady",
        "Whether the broker serves Kafka clients.",
        readyz,
        {200: ResponseSpec("They are", media=PLAIN)},
        public=True,
    ),
)
