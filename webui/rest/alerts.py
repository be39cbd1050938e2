"""GET /alerts and /alerts:history: what fires now, and what happened since the start."""

from typing import Final

from broker.controller.rows.alerts import AlertEvent, AlertRow
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.tables.answers import as_json, schema_of

ALERTS: Final = page_schema(schema_of(AlertRow))
HISTORY: Final = page_schema(schema_of(AlertEvent))


async def list_alerts(call: Call) -> Reply:
    rows = call.console.backend.alerts.active()
    return Reply(await list_page(call, rows, as_json, _order))


async def list_events(call: Call) -> Reply:
    rows = call.console.backend.alerts.history()
    return Reply(await list_page(call, rows, as_json, lambda event: -event.number))


def _order(row: AlertRow) -> tuple[bool, int, str, tuple[tuple[str, str], ...]]:
    """The firing ones first, each kind by its age."""
    return row.state != "firing", row.since_at_ms, row.rule, row.labels


ROUTES: Final = (
    Route(
        "GET /api/v1/alerts",
        "listAlerts",
        "Alerts that are pending or firing now.",
        list_alerts,
        {200: ResponseSpec("The alerts, the firing ones first", ALERTS)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alerts:history",
        "listAlertEvents",
        "What fired, was resolved or could not be delivered since the broker's start, the newest first.",
        list_events,
        {200: ResponseSpec("The newest 500 events", HISTORY)},
        query=list_query(),
    ),
)
