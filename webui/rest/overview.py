"""GET /overview: the broker's metrics, and their history."""

from typing import Final

from broker.controller.rows.broker import Overview
from webui.live.history import KEPT_S, Sample
from webui.live.snapshot import overview_json
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import MAYBE, TIME, Listing, Number, Record
from webui.tables.answers import schema_of
from webui.tables.slices import collect

HISTORY: Final = Record({name: Listing(MAYBE) for name in Sample._fields})

OVERVIEW: Final = schema_of(Overview, "Overview", at=TIME, history=HISTORY)


async def overview(call: Call) -> Reply:
    console = call.console
    answer = overview_json(console.backend.views.overview(), console.now_ms())
    columns = await collect(console.live.history.columns(call.query["history_s"]))
    return Reply(answer | {"history": dict(columns)})


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
)
