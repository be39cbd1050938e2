"""GET, PUT and DELETE /client-metrics, and GET /client-instances: subscriptions to client metrics (KIP-714),
and what clients pushed.

A change of a subscription is the same command as IncrementalAlterConfigs of a CLIENT_METRICS resource. A PUT
replaces the whole subscription: omitted settings return to their defaults.
"""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
    Role,
)
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.views.client_telemetry import ClientInstanceRow, ClientMetricRow, MatchReach, SubscriptionRow
from webui.problem import Problem, problem_schema, raise_refusal
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.replies import HEADERS, expected_version, no_content, path_of_name, stored, versioned
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, NAME, Flag, Invalid, Listing, Maybe, Number, Record, Schema, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.json_output import finite
from webui.tables.listing import Table
from webui.tables.slices import run_in_slices

SUBSCRIPTIONS: Final[Table[SubscriptionRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.name, *row.metrics, *row.match, row.changed_by),
    default_sort="name",
    sort_key=lambda row: row.name,
    sorts={
        "interval": lambda row: row.interval_ms,
        "matching": lambda row: row.matching,
        "changed": lambda row: row.changed_at_ms,
    },
    filters={"unused": lambda row: row.matching == 0},
)


OPTIONS: Final = {"metrics": "--metrics", "interval.ms": "--interval", "match": "--match"}


def kafka_client_metrics(endpoint: ClientEndpoint, name: str, wanted: Mapping[str, str]) -> str:
    """Return one line for a POSIX shell. `wanted` has all settings after the edit; an empty value resets the
    others.
    """
    words = endpoint.tool("kafka-client-metrics.sh")
    if not wanted:
        return shlex.join([*words, "--delete", "--name", name])
    words += ["--alter", "--name", name]
    for key, option in OPTIONS.items():
        words += [option, wanted.get(key, "")]
    return shlex.join(words)


MAX_ITEMS: Final = 100

_ITEM: Final = Text(max_length=1_024, min_length=1)
SETTINGS: Final[dict[str, Schema]] = {
    "metrics": Listing(_ITEM, max_items=MAX_ITEMS),
    "interval.ms": Number(integer=True),
    "match": Listing(_ITEM, max_items=MAX_ITEMS),
}
_SUBSCRIPTION: Final = schema_of(SubscriptionRow, "ClientMetricsSubscription")
SUBSCRIPTION_PAGE: Final = page_schema(_SUBSCRIPTION, instances=COUNT)
_REACH: Final = schema_of(MatchReach)
EDITED: Final = Record(
    {"current": Maybe(_SUBSCRIPTION), "command": Text(max_length=300_000), "reach": _REACH},
    title="ClientMetricsEdit",
)
REFUSED: Final = problem_schema(current=Maybe(_SUBSCRIPTION))

_NAME = (PathName("name", Text(max_length=1_024, min_length=1), "The subscription's name."),)
_VALIDATE = Query(
    "validate_only", Flag(), "Only preview the matching clients; change nothing.", default=False
)


async def list_subscriptions(call: Call) -> Reply:
    telemetry = call.views.client_telemetry
    page = await table_page(call, SUBSCRIPTIONS, telemetry.subscriptions())
    return Reply(page | {"instances": telemetry.known})


async def get_subscription(call: Call) -> Reply:
    row = await _row(call)
    if row is None:
        raise Problem(404, "Subscription not found.")
    return versioned(as_json(row), row.version)


async def put_subscription(call: Call) -> Reply:
    existed = await _row(call) is not None
    answer, version = await _alter(call, configs_of(call.body))
    path = path_of_name("client-metrics", call.path_params["name"])
    return stored(answer, version, path, existed=existed or call.query["validate_only"])


def configs_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Return a subscription's settings as text. Raises Invalid."""
    for where in ("metrics", "match"):
        for item in body.get(where, ()):
            if "," in item:
                raise Invalid(where, "An item must not contain a comma, which separates items.")
    wanted = {
        "metrics": ",".join(body["metrics"]),
        "interval.ms": str(int(body["interval.ms"])) if "interval.ms" in body else None,
        "match": ",".join(body["match"]) if body.get("match") else None,
    }
    return {key: text for key, text in wanted.items() if text is not None}


def ops_for(wanted: Mapping[str, str]) -> tuple[ConfigOp, ...]:
    """Return the ops that replace a subscription's settings; an empty mapping deletes it."""
    return tuple(
        ConfigOp(key, OpType.SET if key in wanted else OpType.DELETE, wanted.get(key))
        for key in ("metrics", "interval.ms", "match")
    )


async def delete_subscription(call: Call) -> Reply:
    if await _row(call) is None:
        raise Problem(404, "Subscription not found.")
    answer, version = await _alter(call, {})
    return versioned(answer, version) if call.query["validate_only"] else no_content()


async def _alter(call: Call, wanted: dict[str, str]) -> tuple[dict[str, Any], int]:
    """Replace the settings by `wanted`; an empty mapping deletes the subscription. Return what the edit did
    or would do, and the subscription's version. Raises Problem.
    """
    name = str(call.path_params["name"])
    validate_only = call.query["validate_only"]
    alteration = ConfigAlteration(
        ConfigResource(ResourceType.CLIENT_METRICS, name), ops_for(wanted), expected_version(call.headers)
    )
    command = IncrementalAlterConfigs((alteration,), validate_only)
    (outcome,) = await call.apply(command)
    row = await _row(call)
    current = None if row is None else as_json(row)
    raise_refusal(outcome, current)
    if not validate_only:
        call.console.live.refresh()
    endpoint = call.views.server_info().endpoint
    answer: dict[str, Any] = {
        "current": current,
        "command": kafka_client_metrics(endpoint, name, wanted),
        "reach": as_json(await run_in_slices(call.views.client_telemetry.reach(name, wanted))),
    }
    return answer, 0 if row is None else row.version


async def _row(call: Call) -> SubscriptionRow | None:
    name = str(call.path_params["name"])
    return await run_in_slices(call.views.client_telemetry.subscription(name))


_REFUSALS: Final = {
    400: ResponseSpec("Invalid setting", REFUSED),
    403: ResponseSpec("Insufficient role", REFUSED),
    412: ResponseSpec("The subscription changed in the meantime; `current` is its current state", REFUSED),
}


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
        "GET /api/v1/client-metrics",
        "listClientMetrics",
        "Subscriptions to client metrics, each with the number of matching client instances.",
        list_subscriptions,
        {
            200: ResponseSpec(
                "A page of subscriptions; `instances` is the number of known client instances",
                SUBSCRIPTION_PAGE,
            )
        },
        query=page_query(SUBSCRIPTIONS),
    ),
    Route(
        "GET /api/v1/client-metrics/{name}",
        "getClientMetrics",
        "One subscription.",
        get_subscription,
        {
            200: ResponseSpec("The subscription; ETag: its version", _SUBSCRIPTION),
            404: ResponseSpec("Subscription not found", REFUSED),
        },
        path_params=_NAME,
    ),
    Route(
        "PUT /api/v1/client-metrics/{name}",
        "setClientMetrics",
        "Creates or replaces a subscription; omitted settings have their defaults.",
        put_subscription,
        {
            200: ResponseSpec(
                "The subscription after the change, or before it with validate_only; ETag: its version",
                EDITED,
            ),
            201: ResponseSpec("The subscription is new", EDITED),
            **_REFUSALS,
        },
        example={
            "metrics": ["org.apache.kafka.producer."],
            "interval.ms": 60000,
            "match": ["client_id=orders-.*"],
        },
        query=(_VALIDATE,),
        body=Record(SETTINGS, optional=frozenset({"interval.ms", "match"})),
        has_list=True,
        headers=HEADERS,
        path_params=_NAME,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/client-metrics/{name}",
        "removeClientMetrics",
        "Deletes a subscription; its clients stop pushing these metrics with their next request.",
        delete_subscription,
        {
            200: ResponseSpec("Only with validate_only: the subscription, and its clients", EDITED),
            204: ResponseSpec("The subscription is deleted"),
            404: ResponseSpec("Subscription not found", REFUSED),
            **_REFUSALS,
        },
        query=(_VALIDATE,),
        headers=HEADERS,
        path_params=_NAME,
    ),
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
