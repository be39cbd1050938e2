"""GET /client-instances and /client-instances/{instance}: client instances, and the metrics that they pushed
(KIP-714).
"""

from typing import Any, Final

from broker.views.client_telemetry import ClientInstanceRow, ClientMetricRow
from webui.problem import Problem
from webui.rest.client_metrics import REFUSED
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, NAME, Listing, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.json_output import finite
from webui.tables.listing import Table
from webui.tables.slices import run_in_slices

INSTANCE_PAGE: Final = page_schema(schema_of(ClientInstanceRow, "ClientInstance"))
_HISTORY: Final = Record({"at_ms": Listing(COUNT), "values": Listing(Number(nullable=True))})
_METRIC: Final = schema_of(ClientMetricRow, history=_HISTORY)
INSTANCE: Final = schema_of(ClientInstanceRow, "ClientInstanceDetail", latest_metrics=Listing(_METRIC))

INSTANCES: Final[Table[ClientInstanceRow]] = Table(
    json=as_json,
    search_texts=lambda row: (
        row.client_id,
        row.instance_id,
        row.principal,
        row.address,
        f"{row.software_name} {row.software_version}",
        *row.subscriptions,
    ),
    default_sort="client",
    sort_key=lambda row: (row.client_id, row.instance_id),
    sorts={
        "software": lambda row: (row.software_name, row.software_version),
        "address": lambda row: row.address,
        "interval": lambda row: row.interval_ms,
        "pushes": lambda row: row.pushes,
        "pushed": lambda row: row.last_push_at_ms,
        "errors": lambda row: row.errors,
        "series": lambda row: row.series,
    },
    filters={
        "pushing": lambda row: row.pushes > 0,
        "silent": lambda row: row.pushes == 0,
        "unsubscribed": lambda row: not row.subscriptions,
        "failing": lambda row: row.errors > 0 or row.last_error != "",
        "over_limit": lambda row: row.is_over_limit,
    },
)


def metric_json(row: ClientMetricRow) -> dict[str, Any]:
    at_ms = [at_ms for at_ms, _ in row.history]
    return as_json(row) | {"history": {"at_ms": at_ms, "values": [finite(value) for _, value in row.history]}}


async def list_instances(call: Call) -> Reply:
    rows = call.views.client_telemetry.instances()
    return Reply(await table_page(call, INSTANCES, rows))


async def get_instance(call: Call) -> Reply:
    telemetry = call.views.client_telemetry
    instance_id = str(call.path_params["instance"])
    row = await run_in_slices(telemetry.instance(instance_id))
    if row is None:
        raise Problem(404, "Client instance not found.")
    only = call.query["metric"]
    latest = [metric_json(each) for each in telemetry.metrics_of(instance_id) if only in (None, each.name)]
    return Reply(as_json(row) | {"latest_metrics": latest})


_INSTANCE_ID: Final = (
    Query("instance", Text(max_length=64, min_length=1), "22 characters of URL-safe base64."),
)

ROUTES: Final = (
    Route(
        "GET /api/v1/client-instances",
        "listClientInstances",
        "Known client instances that have requested their subscriptions.",
        list_instances,
        {200: ResponseSpec("A page of client instances", INSTANCE_PAGE)},
        query=page_query(INSTANCES),
    ),
    Route(
        "GET /api/v1/client-instances/{instance}",
        "getClientInstance",
        "One client instance, with the metrics that it pushed.",
        get_instance,
        {
            200: ResponseSpec(
                "The instance and its metrics, each with its latest and earlier values", INSTANCE
            ),
            404: ResponseSpec("Client instance not found, or expired", REFUSED),
        },
        query=(Query("metric", NAME, "Only the metric of this name."),),
        path_params=_INSTANCE_ID,
    ),
)
