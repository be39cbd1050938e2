"""Alert rules, the destinations of notifications, what fires now, and what happened since the start.

Rules need the role editor, destinations the role admin (broker.controller.alerts). No response contains a
destination's path, query or header values: an edit that omits them keeps them.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.alerts import (
    BEYOND,
    LONGEST_HEADER,
    LONGEST_MATCH,
    LONGEST_NAME,
    LONGEST_WAIT_MS,
    MAX_TARGETS,
    AlertCondition,
    AlertRule,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    SetAlertDestination,
    SetAlertRule,
    Severity,
)
from broker.controller.commands import Command, EntryOutcome, Role
from broker.controller.rows.alerts import (
    AlertEvent,
    AlertRow,
    AlertRuleRow,
    Attempt,
    Delivery,
    DestinationRow,
)
from webui.problem import PROBLEM, Problem, problem_schema, raise_refusal
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import (
    HEADERS,
    Call,
    PathName,
    Query,
    Reply,
    ResponseSpec,
    Route,
    etag,
    expected_version,
    no_content,
    path_of_name,
)
from webui.schema import (
    NAME,
    Flag,
    Listing,
    Maybe,
    Names,
    Number,
    Record,
    Schema,
    Text,
)
from webui.tables.answers import as_json, schema_of

_NAME: Final = Text(min_length=1, max_length=LONGEST_NAME)
_MOMENT: Final = Text(form="date-time", nullable=True)
_WAIT: Final = Number(integer=True, minimum=0, maximum=LONGEST_WAIT_MS)
_CONDITION: Final = Text(choices=tuple(AlertCondition))
_SEVERITY: Final = Text(choices=tuple(Severity))
_THRESHOLD: Final = Number(minimum=0, exclusive_maximum=BEYOND)

_RULE_FIELDS: Final[dict[str, Schema]] = {
    "condition": _CONDITION,
    "threshold": _THRESHOLD,
    "clear": Maybe(_THRESHOLD),
    "for_ms": _WAIT,
    "resolve_after_ms": _WAIT,
    "match": Text(max_length=LONGEST_MATCH),
    "severity": _SEVERITY,
    "destinations": Listing(_NAME, max_items=MAX_TARGETS),
    "enabled": Flag(),
}
RULE: Final = Record({"name": NAME, **_RULE_FIELDS, **schema_of(AlertRuleRow).fields})
RULES: Final = page_schema(RULE)
DESTINATION: Final = Record(
    {
        **schema_of(DestinationRow).fields,
        "kind": Text(choices=("", *DestinationKind)),
        "url": Text(max_length=4_096),
        **schema_of(Delivery).fields,
    }
)
DESTINATIONS: Final = page_schema(DESTINATION)
ALERTS: Final = page_schema(schema_of(AlertRow))
HISTORY: Final = page_schema(schema_of(AlertEvent))
TESTED: Final = schema_of(Attempt)
REFUSED_RULE: Final = problem_schema(current=Maybe(RULE))
REFUSED_DESTINATION: Final = problem_schema(current=Maybe(DESTINATION))

_RULE_BODY: Final = Record(_RULE_FIELDS, optional=frozenset(_RULE_FIELDS) - {"condition", "threshold"})
_DESTINATION_BODY: Final = Record(
    {
        "kind": Text(choices=tuple(DestinationKind)),
        "url": Text(max_length=4_096),
        "headers": Names(Text(max_length=LONGEST_HEADER)),
    },
    optional=frozenset({"url", "headers"}),
)
_RULE_NAME: Final = (PathName("name", _NAME, "The rule's name."),)
_DESTINATION_NAME: Final = (PathName("name", _NAME, "The destination's name."),)
_VALIDATE: Final = Query("validate_only", Flag(), "Only check the change; change nothing.", default=False)


def rule_json(row: AlertRuleRow, call: Call) -> dict[str, Any]:
    pending, firing, unlisted, value = call.console.backend.alerts.rules().get(row.name, (0, 0, 0, None))
    counted = replace(row, pending=pending, firing=firing, unlisted=unlisted, value=value)
    return {"name": row.name} | as_json(row.rule) | as_json(counted)


def destination_json(row: DestinationRow, call: Call) -> dict[str, Any]:
    return as_json(row) | as_json(call.console.backend.alerts.deliveries().get(row.name, Delivery()))


async def list_rules(call: Call) -> Reply:
    rows = call.console.backend.views.metadata.alert_rules()
    return Reply(await list_page(call, rows, lambda row: rule_json(row, call), lambda row: row.name))


async def get_rule(call: Call) -> Reply:
    return _rule_reply(call)


async def put_rule(call: Call) -> Reply:
    name, rule = call.path_params["name"], msgspec.convert(call.body, AlertRule)
    was_there = _rule(call) is not None
    validate_only = call.query["validate_only"]
    await _apply_rule(call, SetAlertRule(name, rule, expected_version(call.headers), validate_only))
    if validate_only:
        return no_content()
    return _rule_reply(call) if was_there else _created(_rule_reply(call), "alert-rules", name)


async def delete_rule(call: Call) -> Reply:
    await _apply_rule(call, RemoveAlertRule(call.path_params["name"], expected_version(call.headers)))
    return no_content()


def _rule(call: Call) -> AlertRuleRow | None:
    rows = call.console.backend.views.metadata.alert_rules()
    return next((row for row in rows if row.name == call.path_params["name"]), None)


def _created(reply: Reply, collection: str, name: str) -> Reply:
    headers = {**reply.headers, "Location": path_of_name(collection, name)}
    return Reply(reply.content, status=201, headers=headers)


def _rule_reply(call: Call) -> Reply:
    row = _rule(call)
    if row is None:
        raise Problem(404, "Alert rule not found.")
    return Reply(rule_json(row, call), headers={"ETag": etag(row.version)})


async def _apply_rule(call: Call, command: Command[EntryOutcome]) -> None:
    outcome = await call.console.backend.control.apply(command, call.actor)
    row = _rule(call)
    raise_refusal(outcome, None if row is None else rule_json(row, call))


async def list_destinations(call: Call) -> Reply:
    rows = call.console.backend.views.metadata.alert_destinations()
    return Reply(await list_page(call, rows, lambda row: destination_json(row, call), lambda row: row.name))


async def get_destination(call: Call) -> Reply:
    return _destination_reply(call)


async def put_destination(call: Call) -> Reply:
    body, name = call.body, call.path_params["name"]
    was_there = _destination(call) is not None
    validate_only = call.query["validate_only"]
    headers: Mapping[str, str] | None = body.get("headers")
    kind = DestinationKind(body["kind"])
    expected = expected_version(call.headers)
    command = SetAlertDestination(name, kind, body.get("url"), headers, expected, validate_only)
    await _apply_destination(call, command)
    if validate_only:
        return no_content()
    reply = _destination_reply(call)
    return reply if was_there else _created(reply, "alert-destinations", name)


async def delete_destination(call: Call) -> Reply:
    command = RemoveAlertDestination(call.path_params["name"], expected_version(call.headers))
    await _apply_destination(call, command)
    return no_content()


async def test_destination(call: Call) -> Reply:
    row = _destination(call)
    if row is None or not row.kind:
        raise Problem(404, "Destination not found.")
    # Who may store a destination may send to it.
    unchanged = SetAlertDestination(row.name, DestinationKind(row.kind), None, validate_only=True)
    await _apply_destination(call, unchanged)
    return Reply(as_json(await call.console.backend.alerts.test(row.name)))


def _destination(call: Call) -> DestinationRow | None:
    rows = call.console.backend.views.metadata.alert_destinations()
    return next((row for row in rows if row.name == call.path_params["name"]), None)


def _destination_reply(call: Call) -> Reply:
    row = _destination(call)
    if row is None:
        raise Problem(404, "Destination not found.")
    return Reply(destination_json(row, call), headers={"ETag": etag(row.version)})


async def _apply_destination(call: Call, command: Command[EntryOutcome]) -> None:
    outcome = await call.console.backend.control.apply(command, call.actor)
    if outcome.error is ErrorCode.POLICY_VIOLATION:
        raise Problem(409, f"{outcome.message}.", code=outcome.error.name)
    row = _destination(call)
    raise_refusal(outcome, None if row is None else destination_json(row, call))


async def list_alerts(call: Call) -> Reply:
    rows = call.console.backend.alerts.active()
    return Reply(await list_page(call, rows, as_json, _order))


async def list_events(call: Call) -> Reply:
    rows = call.console.backend.alerts.history()
    return Reply(await list_page(call, rows, as_json, lambda event: -event.number))


def _order(row: AlertRow) -> tuple[bool, int, str, tuple[tuple[str, str], ...]]:
    """The firing ones first, each kind by its age."""
    return row.state != "firing", row.since_at_ms, row.rule, row.labels


_MISSING_RULE: Final = ResponseSpec("Alert rule not found", PROBLEM)
_MISSING_DESTINATION: Final = ResponseSpec("Destination not found", PROBLEM)
_VALID: Final = ResponseSpec("With validate_only: the change is valid")
_CHANGED_RULE: Final = ResponseSpec(
    "The rule changed in the meantime; `current` is its current state", REFUSED_RULE
)
_CHANGED_DESTINATION: Final = ResponseSpec(
    "The destination changed in the meantime; `current` is its current state", REFUSED_DESTINATION
)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/alerts",
        "listAlerts",
        "Alerts that are pending or firing now.",
        list_alerts,
        {200: ResponseSpec("The alerts, the firing ones first", ALERTS)},
        query=list_query(),
    ),
    Route(
        "GET",
        "/api/v1/alerts:history",
        "listAlertEvents",
        "What fired, was resolved or could not be delivered since the broker's start, the newest first.",
        list_events,
        {200: ResponseSpec("The newest 500 events", HISTORY)},
        query=list_query(),
    ),
    Route(
        "GET",
        "/api/v1/alert-rules",
        "listAlertRules",
        "Alert rules with the number of their alerts.",
        list_rules,
        {200: ResponseSpec("The rules, by name", RULES)},
        query=list_query(),
    ),
    Route(
        "GET",
        "/api/v1/alert-rules/{name}",
        "getAlertRule",
        "One alert rule.",
        get_rule,
        {200: ResponseSpec("The rule; ETag: its version", RULE), 404: _MISSING_RULE},
        path_params=_RULE_NAME,
    ),
    Route(
        "PUT",
        "/api/v1/alert-rules/{name}",
        "setAlertRule",
        "Creates or replaces an alert rule; omitted fields have their defaults.",
        put_rule,
        {
            200: ResponseSpec("The replaced rule; ETag: its version", RULE),
            201: ResponseSpec("The new rule; ETag: its version", RULE),
            204: _VALID,
            412: _CHANGED_RULE,
        },
        query=(_VALIDATE,),
        body=_RULE_BODY,
        example={"condition": "lag", "threshold": 100_000, "match": "reports*", "for_ms": 300_000},
        has_list=True,
        headers=HEADERS,
        path_params=_RULE_NAME,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE",
        "/api/v1/alert-rules/{name}",
        "removeAlertRule",
        "Removes an alert rule; its alerts are resolved.",
        delete_rule,
        {204: ResponseSpec("The rule is removed"), 404: _MISSING_RULE, 412: _CHANGED_RULE},
        headers={"If-Match": HEADERS["If-Match"]},
        path_params=_RULE_NAME,
    ),
    Route(
        "GET",
        "/api/v1/alert-destinations",
        "listAlertDestinations",
        "Destinations of notifications, without their secrets.",
        list_destinations,
        {200: ResponseSpec("The destinations, by name", DESTINATIONS)},
        query=list_query(),
    ),
    Route(
        "GET",
        "/api/v1/alert-destinations/{name}",
        "getAlertDestination",
        "One destination, without its secrets.",
        get_destination,
        {200: ResponseSpec("The destination; ETag: its version", DESTINATION), 404: _MISSING_DESTINATION},
        path_params=_DESTINATION_NAME,
    ),
    Route(
        "PUT",
        "/api/v1/alert-destinations/{name}",
        "setAlertDestination",
        "Creates or replaces a destination; what is omitted of URL and headers stays as it is. "
        "Requires the role admin.",
        put_destination,
        {
            200: ResponseSpec("The replaced destination; ETag: its version", DESTINATION),
            201: ResponseSpec("The new destination; ETag: its version", DESTINATION),
            204: _VALID,
            412: _CHANGED_DESTINATION,
        },
        query=(_VALIDATE,),
        body=_DESTINATION_BODY,
        example={"kind": "webhook", "url": "https://hooks.example/T0/x"},
        headers=HEADERS,
        path_params=_DESTINATION_NAME,
        role=Role.ADMIN,
    ),
    Route(
        "DELETE",
        "/api/v1/alert-destinations/{name}",
        "removeAlertDestination",
        "Removes a destination that no rule names. Requires the role admin.",
        delete_destination,
        {
            204: ResponseSpec("The destination is removed"),
            404: _MISSING_DESTINATION,
            409: ResponseSpec("A rule names the destination", PROBLEM),
            412: _CHANGED_DESTINATION,
        },
        headers={"If-Match": HEADERS["If-Match"]},
        path_params=_DESTINATION_NAME,
    ),
    Route(
        "POST",
        "/api/v1/alert-destinations/{name}:test",
        "testAlertDestination",
        "Sends a test notification now. Requires the role admin.",
        test_destination,
        {
            200: ResponseSpec("Whether the destination accepted it, and its response", TESTED),
            404: _MISSING_DESTINATION,
        },
        path_params=_DESTINATION_NAME,
    ),
)
