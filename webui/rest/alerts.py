"""Alerts (/alerts), the rules by which they fire (/alert-rules), silences (/alert-silences), and the
destinations of notifications (/alert-destinations).

Changes of rules and silences need the role editor, of destinations the role admin
(broker.controller.alerts). No response contains a destination's path, query, header values or secret: an edit
that omits them keeps them.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.alerts import (
    BEYOND,
    LONGEST_ADDRESS,
    LONGEST_HEADER,
    LONGEST_MATCH,
    LONGEST_NAME,
    LONGEST_SECRET,
    LONGEST_SILENCE_MS,
    LONGEST_USERNAME,
    LONGEST_WAIT_MS,
    MAX_RECIPIENTS,
    MAX_TARGETS,
    SHORTEST_SILENCE_MS,
    AlertCondition,
    AlertRule,
    AlertSilence,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    RemoveAlertSilence,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
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
    SilenceRow,
)
from webui.problem import PROBLEM, Problem, problem_schema, raise_refusal
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.replies import (
    HEADERS,
    IF_MATCH,
    expected_version,
    no_content,
    path_of_name,
    stored,
    versioned,
)
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.schema import NAME, Flag, Listing, Maybe, Names, Number, Record, Schema, Text
from webui.tables.answers import as_json, schema_of

Row = TypeVar("Row", AlertRuleRow, DestinationRow, SilenceRow)

ALERTS: Final = page_schema(schema_of(AlertRow))
HISTORY: Final = page_schema(schema_of(AlertEvent))

_NAME: Final = Text(min_length=1, max_length=LONGEST_NAME)
_WAIT: Final = Number(integer=True, minimum=0, maximum=LONGEST_WAIT_MS)
_THRESHOLD: Final = Number(minimum=0, exclusive_maximum=BEYOND)
_RULE_FIELDS: Final[dict[str, Schema]] = {
    "condition": Text(choices=tuple(AlertCondition)),
    "threshold": _THRESHOLD,
    "clear": Maybe(_THRESHOLD),
    "for_ms": _WAIT,
    "resolve_after_ms": _WAIT,
    "match": Text(max_length=LONGEST_MATCH),
    "severity": Text(choices=tuple(Severity)),
    "destinations": Listing(_NAME, max_items=MAX_TARGETS),
    "enabled": Flag(),
    "below": Maybe(Flag()),
    "repeat_ms": _WAIT,
}
RULE: Final = Record({"name": NAME, **_RULE_FIELDS, **schema_of(AlertRuleRow).fields})
RULES: Final = page_schema(RULE)
REFUSED_RULE: Final = problem_schema(current=Maybe(RULE))

DESTINATION: Final = Record({**schema_of(DestinationRow).fields, **schema_of(Delivery).fields})
DESTINATIONS: Final = page_schema(DESTINATION)
REFUSED_DESTINATION: Final = problem_schema(current=Maybe(DESTINATION))
TESTED: Final = schema_of(Attempt)

SILENCE: Final = schema_of(SilenceRow, "AlertSilence")
SILENCES: Final = page_schema(SILENCE)
REFUSED_SILENCE: Final = problem_schema(current=Maybe(SILENCE))
_SILENCE_FIELDS: Final[dict[str, Schema]] = {
    "lasts_ms": Number(integer=True, minimum=SHORTEST_SILENCE_MS, maximum=LONGEST_SILENCE_MS),
    "rule": Text(max_length=LONGEST_NAME),
    "match": Text(max_length=LONGEST_MATCH),
}


async def list_alerts(call: Call) -> Reply:
    rows = call.console.backend.alerts.active()
    return Reply(await list_page(call, rows, as_json, _order))


async def list_events(call: Call) -> Reply:
    rows = call.console.backend.alerts.history()
    return Reply(await list_page(call, rows, as_json, lambda event: -event.number))


def _order(row: AlertRow) -> tuple[bool, int, str, tuple[tuple[str, str], ...]]:
    """The firing ones first, each kind by its age."""
    return row.state != "firing", row.since_at_ms, row.rule, row.labels


class _Collection(msgspec.Struct, Generic[Row], frozen=True):
    """The rules, or the destinations: resources of one name each, with a version."""

    path: str
    rows: Callable[[Call], Iterable[Row]]
    json: Callable[[Row, Call], dict[str, Any]]
    missing: str

    async def list(self, call: Call) -> Reply:
        rows = self.rows(call)
        return Reply(await list_page(call, rows, lambda row: self.json(row, call), lambda row: row.name))

    async def get(self, call: Call) -> Reply:
        row = self.existing(call)
        return versioned(self.json(row, call), row.version)

    async def put(self, call: Call, command: Command[EntryOutcome]) -> Reply:
        existed = self.row(call) is not None
        await self.apply(call, command)
        if call.query["validate_only"]:
            return no_content()
        row = self.existing(call)
        return stored(self.json(row, call), row.version, path_of_name(self.path, row.name), existed=existed)

    async def apply(self, call: Call, command: Command[EntryOutcome]) -> Reply:
        """Raises Problem with the current state."""
        outcome = await call.apply(command)
        if outcome.error is ErrorCode.POLICY_VIOLATION:
            raise Problem(409, f"{outcome.message}.", code=outcome.error.name)
        row = self.row(call)
        raise_refusal(outcome, None if row is None else self.json(row, call))
        return no_content()

    def row(self, call: Call) -> Row | None:
        return next((row for row in self.rows(call) if row.name == call.path_params["name"]), None)

    def existing(self, call: Call) -> Row:
        row = self.row(call)
        if row is None:
            raise Problem(404, f"{self.missing}.")
        return row


def _rule_json(row: AlertRuleRow, call: Call) -> dict[str, Any]:
    pending, firing, unlisted, value = call.console.backend.alerts.rules().get(row.name, (0, 0, 0, None))
    counted = replace(row, pending=pending, firing=firing, unlisted=unlisted, value=value)
    return {"name": row.name} | as_json(row.rule) | as_json(counted)


def _destination_json(row: DestinationRow, call: Call) -> dict[str, Any]:
    return as_json(row) | as_json(call.console.backend.alerts.deliveries().get(row.name, Delivery()))


_RULES: Final = _Collection[AlertRuleRow](
    "alert-rules", lambda call: call.views.metadata.alert_rules(), _rule_json, "Alert rule not found"
)
_DESTINATIONS: Final = _Collection[DestinationRow](
    "alert-destinations",
    lambda call: call.views.metadata.alert_destinations(),
    _destination_json,
    "Destination not found",
)


async def put_rule(call: Call) -> Reply:
    rule, expected = msgspec.convert(call.body, AlertRule), expected_version(call.headers)
    command = SetAlertRule(call.path_params["name"], rule, expected, call.query["validate_only"])
    return await _RULES.put(call, command)


async def delete_rule(call: Call) -> Reply:
    command = RemoveAlertRule(call.path_params["name"], expected_version(call.headers))
    return await _RULES.apply(call, command)


def _silences(call: Call) -> Iterable[SilenceRow]:
    """Return the silences that have not ended."""
    now_ms = call.console.now_ms()
    return (row for row in call.views.metadata.alert_silences() if row.ends_at_ms > now_ms)


def _silence_json(row: SilenceRow, call: Call) -> dict[str, Any]:
    ends_in_ms = max(0, row.ends_at_ms - call.console.now_ms())
    silenced = call.console.backend.alerts.silenced().get(row.name, 0)
    return as_json(replace(row, ends_in_ms=ends_in_ms, alerts=silenced))


_SILENCES: Final = _Collection[SilenceRow]("alert-silences", _silences, _silence_json, "Silence not found")


async def put_silence(call: Call) -> Reply:
    body, now_ms = call.body, call.console.now_ms()
    silence = AlertSilence(now_ms + int(body["lasts_ms"]), body.get("rule", ""), body.get("match", ""))
    command = SetAlertSilence(
        call.path_params["name"],
        silence,
        expected_version(call.headers),
        call.query["validate_only"],
        now_ms,
    )
    return await _SILENCES.put(call, command)


async def delete_silence(call: Call) -> Reply:
    command = RemoveAlertSilence(call.path_params["name"], expected_version(call.headers))
    return await _SILENCES.apply(call, command)


async def put_destination(call: Call) -> Reply:
    body, expected = call.body, expected_version(call.headers)
    command = SetAlertDestination(
        call.path_params["name"],
        DestinationKind(body["kind"]),
        body.get("url"),
        body.get("headers"),
        expected,
        call.query["validate_only"],
        body.get("secret"),
        body.get("username"),
        body.get("sender"),
        None if "recipients" not in body else tuple(body["recipients"]),
    )
    return await _DESTINATIONS.put(call, command)


async def delete_destination(call: Call) -> Reply:
    command = RemoveAlertDestination(call.path_params["name"], expected_version(call.headers))
    return await _DESTINATIONS.apply(call, command)


async def test_destination(call: Call) -> Reply:
    row = _DESTINATIONS.existing(call)
    if not row.kind:
        raise Problem(404, "Destination not found.")
    # Who may store a destination may send to it.
    unchanged = SetAlertDestination(row.name, DestinationKind(row.kind), None, validate_only=True)
    await _DESTINATIONS.apply(call, unchanged)
    return Reply(as_json(await call.console.backend.alerts.test(row.name)))


_RULE: Final = (PathName("name", _NAME, "The rule's name."),)
_NO_RULE: Final = ResponseSpec(_RULES.missing, PROBLEM)
_RULE_CHANGED: Final = ResponseSpec(
    "The rule changed in the meantime; `current` is its current state", REFUSED_RULE
)
_SILENCE: Final = (PathName("name", _NAME, "The silence's name: why there is one."),)
_NO_SILENCE: Final = ResponseSpec("Silence not found, or ended", PROBLEM)
_SILENCE_CHANGED: Final = ResponseSpec(
    "The silence changed in the meantime; `current` is its current state", REFUSED_SILENCE
)
_DESTINATION: Final = (PathName("name", _NAME, "The destination's name."),)
_NO_DESTINATION: Final = ResponseSpec(_DESTINATIONS.missing, PROBLEM)
_DESTINATION_CHANGED: Final = ResponseSpec(
    "The destination changed in the meantime; `current` is its current state", REFUSED_DESTINATION
)
_VALIDATE: Final = Query("validate_only", Flag(), "Only check the change; change nothing.", default=False)
_VALID: Final = ResponseSpec("With validate_only: the change is valid")

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
    Route(
        "GET /api/v1/alert-rules",
        "listAlertRules",
        "Alert rules with the number of their alerts.",
        _RULES.list,
        {200: ResponseSpec("The rules, by name", RULES)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alert-rules/{name}",
        "getAlertRule",
        "One alert rule.",
        _RULES.get,
        {200: ResponseSpec("The rule; ETag: its version", RULE), 404: _NO_RULE},
        path_params=_RULE,
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
            412: _RULE_CHANGED,
        },
        query=(_VALIDATE,),
        body=Record(_RULE_FIELDS, optional=frozenset(_RULE_FIELDS) - {"condition", "threshold"}),
        example={"condition": "lag", "threshold": 100_000, "match": "reports*", "for_ms": 300_000},
        has_list=True,
        headers=HEADERS,
        path_params=_RULE,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/alert-rules/{name}",
        "removeAlertRule",
        "Removes an alert rule; its alerts are resolved.",
        delete_rule,
        {204: ResponseSpec("The rule is removed"), 404: _NO_RULE, 412: _RULE_CHANGED},
        headers=IF_MATCH,
        path_params=_RULE,
    ),
    Route(
        "GET /api/v1/alert-silences",
        "listAlertSilences",
        "Silences that have not ended.",
        _SILENCES.list,
        {200: ResponseSpec("The silences, by name", SILENCES)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alert-silences/{name}",
        "getAlertSilence",
        "One silence.",
        _SILENCES.get,
        {200: ResponseSpec("The silence; ETag: its version", SILENCE), 404: _NO_SILENCE},
        path_params=_SILENCE,
    ),
    Route(
        "PUT /api/v1/alert-silences/{name}",
        "setAlertSilence",
        "Silences the alerts of a rule, or of all, for `lasts_ms` from now: notifications of what begins to "
        "fire wait for the end.",
        put_silence,
        {
            200: ResponseSpec("The replaced silence; ETag: its version", SILENCE),
            201: ResponseSpec("The new silence; ETag: its version", SILENCE),
            204: _VALID,
            412: _SILENCE_CHANGED,
        },
        query=(_VALIDATE,),
        body=Record(_SILENCE_FIELDS, optional=frozenset({"rule", "match"})),
        example={"lasts_ms": 3_600_000, "rule": "reports fall behind", "match": "reports-*"},
        headers=HEADERS,
        path_params=_SILENCE,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/alert-silences/{name}",
        "removeAlertSilence",
        "Ends a silence.",
        delete_silence,
        {204: ResponseSpec("The silence is removed"), 404: _NO_SILENCE, 412: _SILENCE_CHANGED},
        headers=IF_MATCH,
        path_params=_SILENCE,
    ),
    Route(
        "GET /api/v1/alert-destinations",
        "listAlertDestinations",
        "Destinations of notifications, without their secrets.",
        _DESTINATIONS.list,
        {200: ResponseSpec("The destinations, by name", DESTINATIONS)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alert-destinations/{name}",
        "getAlertDestination",
        "One destination, without its secrets.",
        _DESTINATIONS.get,
        {200: ResponseSpec("The destination; ETag: its version", DESTINATION), 404: _NO_DESTINATION},
        path_params=_DESTINATION,
    ),
    Route(
        "PUT /api/v1/alert-destinations/{name}",
        "setAlertDestination",
        "Creates or replaces a destination; what is omitted stays as it is. `secret` is PagerDuty's "
        "integration key, or the password of `username` at a mail server; no response has it. "
        "Requires the role admin.",
        put_destination,
        {
            200: ResponseSpec("The replaced destination; ETag: its version", DESTINATION),
            201: ResponseSpec("The new destination; ETag: its version", DESTINATION),
            204: _VALID,
            412: _DESTINATION_CHANGED,
        },
        query=(_VALIDATE,),
        has_list=True,
        body=Record(
            {
                "kind": Text(choices=tuple(DestinationKind)),
                "url": DESTINATION.fields["url"],
                "headers": Names(Text(max_length=LONGEST_HEADER)),
                "secret": Text(max_length=LONGEST_SECRET),
                "username": Text(max_length=LONGEST_USERNAME),
                "sender": Text(max_length=LONGEST_ADDRESS),
                "recipients": Listing(Text(max_length=LONGEST_ADDRESS), max_items=MAX_RECIPIENTS),
            },
            optional=frozenset({"url", "headers", "secret", "username", "sender", "recipients"}),
        ),
        example={"kind": "webhook", "url": "https://hooks.example/T0/x"},
        headers=HEADERS,
        path_params=_DESTINATION,
        role=Role.ADMIN,
    ),
    Route(
        "DELETE /api/v1/alert-destinations/{name}",
        "removeAlertDestination",
        "Removes a destination that no rule names. Requires the role admin.",
        delete_destination,
        {
            204: ResponseSpec("The destination is removed"),
            404: _NO_DESTINATION,
            409: ResponseSpec("A rule names the destination", PROBLEM),
            412: _DESTINATION_CHANGED,
        },
        headers=IF_MATCH,
        path_params=_DESTINATION,
    ),
    Route(
        "POST /api/v1/alert-destinations/{name}:test",
        "testAlertDestination",
        "Sends a test notification now. Requires the role admin.",
        test_destination,
        {
            200: ResponseSpec("Whether the destination accepted it, and its response", TESTED),
            404: _NO_DESTINATION,
        },
        path_params=_DESTINATION,
    ),
)
