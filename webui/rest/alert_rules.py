"""GET /alert-rules; GET, PUT and DELETE /alert-rules/{name}: when an alert fires.

Changes need the role editor (broker.controller.alerts).
"""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from broker.controller.alerts import (
    BEYOND,
    LONGEST_MATCH,
    LONGEST_NAME,
    LONGEST_WAIT_MS,
    MAX_TARGETS,
    AlertCondition,
    AlertRule,
    RemoveAlertRule,
    SetAlertRule,
    Severity,
)
from broker.controller.commands import Command, EntryOutcome, Role
from broker.controller.rows.alerts import AlertRuleRow
from webui.problem import PROBLEM, Problem, problem_schema, raise_refusal
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.replies import (
    HEADERS,
    IF_MATCH,
    created,
    expected_version,
    no_content,
    path_of_name,
    versioned,
)
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import NAME, Flag, Listing, Maybe, Number, Record, Schema, Text
from webui.tables.answers import as_json, schema_of

_NAME: Final = Text(min_length=1, max_length=LONGEST_NAME)
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
REFUSED: Final = problem_schema(current=Maybe(RULE))

_BODY: Final = Record(_RULE_FIELDS, optional=frozenset(_RULE_FIELDS) - {"condition", "threshold"})
_PLACE: Final = (PathName("name", _NAME, "The rule's name."),)
_VALIDATE: Final = Query("validate_only", Flag(), "Only check the change; change nothing.", default=False)


def rule_json(row: AlertRuleRow, call: Call) -> dict[str, Any]:
    pending, firing, unlisted, value = call.console.backend.alerts.rules().get(row.name, (0, 0, 0, None))
    counted = replace(row, pending=pending, firing=firing, unlisted=unlisted, value=value)
    return {"name": row.name} | as_json(row.rule) | as_json(counted)


async def list_rules(call: Call) -> Reply:
    rows = call.views.metadata.alert_rules()
    return Reply(await list_page(call, rows, lambda row: rule_json(row, call), lambda row: row.name))


async def get_rule(call: Call) -> Reply:
    row = _existing(call)
    return versioned(rule_json(row, call), row.version)


async def put_rule(call: Call) -> Reply:
    name, rule = call.path_params["name"], msgspec.convert(call.body, AlertRule)
    was_there = _row(call) is not None
    validate_only = call.query["validate_only"]
    await _apply(call, SetAlertRule(name, rule, expected_version(call.headers), validate_only))
    if validate_only:
        return no_content()
    row = _existing(call)
    if was_there:
        return versioned(rule_json(row, call), row.version)
    return created(rule_json(row, call), path_of_name("alert-rules", name), row.version)


async def delete_rule(call: Call) -> Reply:
    await _apply(call, RemoveAlertRule(call.path_params["name"], expected_version(call.headers)))
    return no_content()


def _row(call: Call) -> AlertRuleRow | None:
    rows = call.views.metadata.alert_rules()
    return next((row for row in rows if row.name == call.path_params["name"]), None)


def _existing(call: Call) -> AlertRuleRow:
    row = _row(call)
    if row is None:
        raise Problem(404, "Alert rule not found.")
    return row


async def _apply(call: Call, command: Command[EntryOutcome]) -> None:
    outcome = await call.apply(command)
    row = _row(call)
    raise_refusal(outcome, None if row is None else rule_json(row, call))


_MISSING: Final = ResponseSpec("Alert rule not found", PROBLEM)
_VALID: Final = ResponseSpec("With validate_only: the change is valid")
_CHANGED: Final = ResponseSpec("The rule changed in the meantime; `current` is its current state", REFUSED)

ROUTES: Final = (
    Route(
        "GET /api/v1/alert-rules",
        "listAlertRules",
        "Alert rules with the number of their alerts.",
        list_rules,
        {200: ResponseSpec("The rules, by name", RULES)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alert-rules/{name}",
        "getAlertRule",
        "One alert rule.",
        get_rule,
        {200: ResponseSpec("The rule; ETag: its version", RULE), 404: _MISSING},
        path_params=_PLACE,
    ),
    Route(
        "PUT /api/v1/alert-rules/{name}",
        "setAlertRule",
        "Creates or replaces an alert rule; omitted fields have their defaults.",
        put_rule,
        {
            200: ResponseSpec("The replaced rule; ETag: its version", RULE),
            201: ResponseSpec("The new rule; ETag: its version", RULE),
            204: _VALID,
            412: _CHANGED,
        },
        query=(_VALIDATE,),
        body=_BODY,
        example={"condition": "lag", "threshold": 100_000, "match": "reports*", "for_ms": 300_000},
        has_list=True,
        headers=HEADERS,
        path_params=_PLACE,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/alert-rules/{name}",
        "removeAlertRule",
        "Removes an alert rule; its alerts are resolved.",
        delete_rule,
        {204: ResponseSpec("The rule is removed"), 404: _MISSING, 412: _CHANGED},
        headers=IF_MATCH,
        path_params=_PLACE,
    ),
)
