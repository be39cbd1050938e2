"""GET and PUT /request-log: the requests that the broker logs. They set the broker's request.log.* settings,
so changes are audited, survive a restart and are visible through Kafka's tools.
"""

from typing import Any, Final

from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.errors import ErrorCode
from webui.rest.conditions import IF_MATCH, etag, expected_version
from webui.rest.problem import PROBLEM_FIELDS, Problem
from webui.rest.routing import Answer, Call, Reply, Route
from webui.rest.schema import Invalid, Listing, Number, Record, Schema, Text
from webui.tables.slices import outcome

APIS: Final = "request.log.apis"
CLIENT_IDS: Final = "request.log.client.ids"
MOST: Final = "request.log.max.per.second"

_NAMES: Final = Listing(Text(longest=256), most=100)
_LOG: Final[dict[str, Schema]] = {
    "apis": _NAMES,
    "client_ids": _NAMES,
    "max_per_second": Number(integer=True, least=1, most=10_000),
}
REQUEST_LOG: Final = Record(_LOG)
REFUSED: Final = Record(
    {**PROBLEM_FIELDS, "current": REQUEST_LOG}, optional=frozenset({"code", "where", "current"})
)


async def get_request_log(call: Call) -> Reply:
    return Reply(await _shown(call), headers=_version(call))


async def put_request_log(call: Call) -> Reply:
    wanted = {
        APIS: _joined(call.body["apis"], "apis"),
        CLIENT_IDS: _joined(call.body["client_ids"], "client_ids"),
        MOST: str(call.body["max_per_second"]),
    }
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in wanted.items())
    command = IncrementalAlterConfigs((ConfigAlteration(_broker(call), ops, expected_version(call.headers)),))
    (outcome,) = await call.console.backend.control.apply(command, call.actor)
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem.of(outcome.error, outcome.message, current=await _shown(call))
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    return Reply(await _shown(call), headers=_version(call))


def _version(call: Call) -> dict[str, str]:
    """Return the ETag of the broker's settings, which include the request log's."""
    return {"ETag": etag(call.console.backend.views.broker_config_version(_broker(call).name))}


def _broker(call: Call) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, str(call.console.backend.views.overview().node_id))


async def _shown(call: Call) -> dict[str, Any]:
    found = await outcome(call.console.backend.views.describe_configs(_broker(call)))
    rows = {row.name: row.value or "" for row in found}
    return {
        "apis": [name for name in rows[APIS].split(",") if name],
        "client_ids": [name for name in rows[CLIENT_IDS].split(",") if name],
        "max_per_second": int(rows[MOST]),
    }


def _joined(names: list[str], where: str) -> str:
    """Join names into the setting's comma-separated list. Raises Invalid for a name with a comma or outer
    spaces.
    """
    for name in names:
        if not name or "," in name or name != name.strip():
            raise Invalid(where, "a name must not be empty, contain a comma, or start or end with a space")
    return ",".join(names)


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/request-log",
        "getRequestLog",
        "The APIs and client ids whose requests the broker logs.",
        get_request_log,
        {200: Answer("APIs by their names in the metrics, and client ids; `*` matches all", REQUEST_LOG)},
    ),
    Route(
        "PUT",
        "/api/v1/request-log",
        "setRequestLog",
        "Logs requests of these APIs and client ids until changed again. Requires the role admin.",
        put_request_log,
        {
            200: Answer("The new setting", REQUEST_LOG),
            412: Answer("Settings changed in the meantime; `current` has the current state", REFUSED),
        },
        body=REQUEST_LOG,
        has_list=True,
        headers=IF_MATCH,
    ),
)
