"""GET /alert-destinations; GET, PUT and DELETE /alert-destinations/{name} and its :test: where notifications
of alerts go.

Changes need the role admin (broker.controller.alerts). No response contains a destination's path, query or
header values: an edit that omits them keeps them.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.common.errors import ErrorCode
from broker.controller.alerts import (
    LONGEST_HEADER,
    LONGEST_NAME,
    DestinationKind,
    RemoveAlertDestination,
    SetAlertDestination,
)
from broker.controller.commands import Command, EntryOutcome, Role
from broker.controller.rows.alerts import Attempt, Delivery, DestinationRow
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
from webui.schema import Flag, Maybe, Names, Record, Text
from webui.tables.answers import as_json, schema_of

DESTINATION: Final = Record(
    {
        **schema_of(DestinationRow).fields,
        "kind": Text(choices=("", *DestinationKind)),
        "url": Text(max_length=4_096),
        **schema_of(Delivery).fields,
    }
)
DESTINATIONS: Final = page_schema(DESTINATION)
REFUSED: Final = problem_schema(current=Maybe(DESTINATION))
TESTED: Final = schema_of(Attempt)

_BODY: Final = Record(
    {
        "kind": Text(choices=tuple(DestinationKind)),
        "url": Text(max_length=4_096),
        "headers": Names(Text(max_length=LONGEST_HEADER)),
    },
    optional=frozenset({"url", "headers"}),
)
_PLACE: Final = (PathName("name", Text(min_length=1, max_length=LONGEST_NAME), "The destination's name."),)
_VALIDATE: Final = Query("validate_only", Flag(), "Only check the change; change nothing.", default=False)


def destination_json(row: DestinationRow, call: Call) -> dict[str, Any]:
    return as_json(row) | as_json(call.console.backend.alerts.deliveries().get(row.name, Delivery()))


async def list_destinations(call: Call) -> Reply:
    rows = call.views.metadata.alert_destinations()
    return Reply(await list_page(call, rows, lambda row: destination_json(row, call), lambda row: row.name))


async def get_destination(call: Call) -> Reply:
    row = _existing(call)
    return versioned(destination_json(row, call), row.version)


async def put_destination(call: Call) -> Reply:
    body, name = call.body, call.path_params["name"]
    was_there = _row(call) is not None
    validate_only = call.query["validate_only"]
    headers: Mapping[str, str] | None = body.get("headers")
    kind = DestinationKind(body["kind"])
    expected = expected_version(call.headers)
    command = SetAlertDestination(name, kind, body.get("url"), headers, expected, validate_only)
    await _apply(call, command)
    if validate_only:
        return no_content()
    row = _existing(call)
    if was_there:
        return versioned(destination_json(row, call), row.version)
    return created(destination_json(row, call), path_of_name("alert-destinations", name), row.version)


async def delete_destination(call: Call) -> Reply:
    command = RemoveAlertDestination(call.path_params["name"], expected_version(call.headers))
    await _apply(call, command)
    return no_content()


async def test_destination(call: Call) -> Reply:
    row = _row(call)
    if row is None or not row.kind:
        raise Problem(404, "Destination not found.")
    # Who may store a destination may send to it.
    unchanged = SetAlertDestination(row.name, DestinationKind(row.kind), None, validate_only=True)
    await _apply(call, unchanged)
    return Reply(as_json(await call.console.backend.alerts.test(row.name)))


def _row(call: Call) -> DestinationRow | None:
    rows = call.views.metadata.alert_destinations()
    return next((row for row in rows if row.name == call.path_params["name"]), None)


def _existing(call: Call) -> DestinationRow:
    row = _row(call)
    if row is None:
        raise Problem(404, "Destination not found.")
    return row


async def _apply(call: Call, command: Command[EntryOutcome]) -> None:
    outcome = await call.apply(command)
    if outcome.error is ErrorCode.POLICY_VIOLATION:
        raise Problem(409, f"{outcome.message}.", code=outcome.error.name)
    row = _row(call)
    raise_refusal(outcome, None if row is None else destination_json(row, call))


_MISSING: Final = ResponseSpec("Destination not found", PROBLEM)
_VALID: Final = ResponseSpec("With validate_only: the change is valid")
_CHANGED: Final = ResponseSpec(
    "The destination changed in the meantime; `current` is its current state", REFUSED
)

ROUTES: Final = (
    Route(
        "GET /api/v1/alert-destinations",
        "listAlertDestinations",
        "Destinations of notifications, without their secrets.",
        list_destinations,
        {200: ResponseSpec("The destinations, by name", DESTINATIONS)},
        query=list_query(),
    ),
    Route(
        "GET /api/v1/alert-destinations/{name}",
        "getAlertDestination",
        "One destination, without its secrets.",
        get_destination,
        {200: ResponseSpec("The destination; ETag: its version", DESTINATION), 404: _MISSING},
        path_params=_PLACE,
    ),
    Route(
        "PUT /api/v1/alert-destinations/{name}",
        "setAlertDestination",
        "Creates or replaces a destination; what is omitted of URL and headers stays as it is. "
        "Requires the role admin.",
        put_destination,
        {
            200: ResponseSpec("The replaced destination; ETag: its version", DESTINATION),
            201: ResponseSpec("The new destination; ETag: its version", DESTINATION),
            204: _VALID,
            412: _CHANGED,
        },
        query=(_VALIDATE,),
        body=_BODY,
        example={"kind": "webhook", "url": "https://hooks.example/T0/x"},
        headers=HEADERS,
        path_params=_PLACE,
        role=Role.ADMIN,
    ),
    Route(
        "DELETE /api/v1/alert-destinations/{name}",
        "removeAlertDestination",
        "Removes a destination that no rule names. Requires the role admin.",
        delete_destination,
        {
            204: ResponseSpec("The destination is removed"),
            404: _MISSING,
            409: ResponseSpec("A rule names the destination", PROBLEM),
            412: _CHANGED,
        },
        headers=IF_MATCH,
        path_params=_PLACE,
    ),
    Route(
        "POST /api/v1/alert-destinations/{name}:test",
        "testAlertDestination",
        "Sends a test notification now. Requires the role admin.",
        test_destination,
        {
            200: ResponseSpec("Whether the destination accepted it, and its response", TESTED),
            404: _MISSING,
        },
        path_params=_PLACE,
    ),
)
