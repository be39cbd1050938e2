"""GET and PUT /request-log: the requests that the broker logs.

The request log consists of the request.log.* settings of the broker, so its changes are audited, survive a
restart and are visible through Kafka's tools.
"""

from typing import Any, Final

from broker.controller.commands import ConfigAlteration, ConfigOp, IncrementalAlterConfigs, OpType, Role
from webui.problem import problem_schema, raise_refusal
from webui.rest.broker_configs import BROKER, resource_of, rows_of, version_of
from webui.rest.replies import IF_MATCH, expected_version, versioned
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import Invalid, Listing, Number, Record, Text

APIS: Final = "request.log.apis"
CLIENT_IDS: Final = "request.log.client.ids"
MOST: Final = "request.log.max.per.second"

_NAMES: Final = Listing(Text(max_length=256), max_items=100)
REQUEST_LOG: Final = Record(
    {
        "apis": _NAMES,
        "client_ids": _NAMES,
        "max_per_second": Number(integer=True, minimum=1, maximum=10_000),
    },
    title="RequestLog",
)
REFUSED_LOG: Final = problem_schema(current=REQUEST_LOG)


async def get_request_log(call: Call) -> Reply:
    return versioned(await _shown(call), version_of(call, BROKER))


async def put_request_log(call: Call) -> Reply:
    wanted = {
        APIS: _joined(call.body["apis"], "apis"),
        CLIENT_IDS: _joined(call.body["client_ids"], "client_ids"),
        MOST: str(call.body["max_per_second"]),
    }
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in wanted.items())
    command = IncrementalAlterConfigs(
        (ConfigAlteration(resource_of(call, BROKER), ops, expected_version(call.headers)),)
    )
    (outcome,) = await call.apply(command)
    current = await _shown(call)
    raise_refusal(outcome, current)
    return versioned(current, version_of(call, BROKER))


async def _shown(call: Call) -> dict[str, Any]:
    rows = {row.name: row.value or "" for row in await rows_of(call, BROKER)}
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
        "GET /api/v1/request-log",
        "getRequestLog",
        "The APIs and client ids whose requests the broker logs.",
        get_request_log,
        {
            200: ResponseSpec(
                "APIs by their names in the metrics, and client ids; `*` matches all", REQUEST_LOG
            )
        },
    ),
    Route(
        "PUT /api/v1/request-log",
        "setRequestLog",
        "Logs requests of these APIs and client ids until changed again. Requires the role admin.",
        put_request_log,
        {
            200: ResponseSpec("The new setting", REQUEST_LOG),
            412: ResponseSpec(
                "Settings changed in the meantime; `current` has the current state", REFUSED_LOG
            ),
        },
        body=REQUEST_LOG,
        has_list=True,
        example={"apis": ["Produce"], "client_ids": ["orders"], "max_per_second": 100},
        headers=IF_MATCH,
        role=Role.ADMIN,
    ),
)
