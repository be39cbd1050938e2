"""GET, PUT and DELETE /client-metrics: subscriptions to client metrics (KIP-714), and their table.

The same command as IncrementalAlterConfigs of a CLIENT_METRICS resource. A PUT replaces the whole
subscription: omitted settings return to their defaults.
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
from broker.views.client_telemetry import MatchReach, SubscriptionRow
from webui.problem import Problem, problem_schema, raise_refusal
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.replies import HEADERS, created, expected_version, no_content, path_of_name, versioned
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Flag, Invalid, Listing, Maybe, Number, Record, Schema, Text
from webui.tables.answers import as_json, schema_of
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
    if existed or call.query["validate_only"]:
        return versioned(answer, version)
    return created(answer, path_of_name("client-metrics", call.path_params["name"]), version)


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
)
