"""/broker-configs, /request-log and /broker-quotas: the broker's settings with their sources, those of the
request log, and broker-wide limits with their use.

The same commands as DescribeConfigs and IncrementalAlterConfigs of a broker. broker.controller validates,
checks roles and versions, and records changes, so those of the request log and of limits, too, survive a
restart and are visible through Kafka's tools.
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
from broker.controller.describe import ConfigSource
from broker.controller.rows.broker import ConfigRow, ServerInfo
from broker.controller.rows.quotas import BrokerQuotas
from broker.views.console import Views
from webui.problem import problem_schema, raise_refusal
from webui.rest.configs import OPS, Config, Synonym, config_json, config_op, is_dynamic
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.replies import IF_MATCH, expected_version, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Flag, Invalid, Listing, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import LONGEST_PAGE
from webui.tables.slices import run_in_slices

_SOURCE: Final = Text(choices=("dynamic-broker", "dynamic-default", "file", "default"))
CONFIG: Final = schema_of(
    Config, "BrokerConfig", source=_SOURCE, synonyms=Listing(schema_of(Synonym, source=_SOURCE))
)

_LEVEL: Final = Text(choices=("broker", "default"))
CONFIG_PAGE: Final = page_schema(CONFIG, level=_LEVEL, version=COUNT, command=Text(max_length=4096))
ALTERED: Final = Record(
    {
        "level": _LEVEL,
        "version": COUNT,
        "command": Text(max_length=4096),
        "items": Listing(CONFIG),
        "warnings": Listing(Text(max_length=4096)),
    }
)
REFUSED: Final = problem_schema(current=Listing(CONFIG))

BROKER: Final = "broker"
DEFAULT: Final = "default"
LEVELS: Final = (BROKER, DEFAULT)

_PATCH: Final = Record(
    {"level": Text(choices=LEVELS), "ops": OPS},
    optional=frozenset({"level"}),
)


async def list_configs(call: Call) -> Reply:
    level, search = call.query["level"], call.query["search"].lower()
    is_used = call.views.metadata.has_effect
    rows = [
        row
        for row in await rows_of(call, level)
        if search in row.name.lower() and (row.source != ConfigSource.DEFAULT or is_used(row.name))
    ]
    if call.query["dynamic"] is not None:
        rows = [row for row in rows if is_dynamic(row) is call.query["dynamic"]]
    page = await list_page(call, rows, config_json, lambda row: row.name)
    return _configs(call, level, page)


async def alter_configs(call: Call) -> Reply:
    level = call.body.get("level", BROKER)
    ops = tuple(config_op(op) for op in call.body["ops"])
    alteration = ConfigAlteration(resource_of(call, level), ops, expected_version(call.headers))
    command = IncrementalAlterConfigs((alteration,), call.query["validate_only"])
    (outcome,) = await call.apply(command)
    named = {op.key for op in ops}
    rows = [config_json(row) for row in await rows_of(call, level) if row.name in named]
    raise_refusal(outcome, rows)
    return _configs(call, level, {"items": rows, "warnings": list(outcome.warnings)})


def _configs(call: Call, level: str, listed: Mapping[str, Any]) -> Reply:
    """`command` is the prefix of the command that changes settings at this level."""
    version = version_of(call, level)
    command = alter_brokers(call.views.server_info(), is_default=level == DEFAULT)
    answer = {"level": level, "version": version, "command": command, **listed}
    return versioned(answer, version)


def version_of(call: Call, level: str) -> int:
    """Return the version of the dynamic settings at this level."""
    return call.views.metadata.broker_config_version(resource_of(call, level).name)


def resource_of(call: Call, level: str) -> ConfigResource:
    node_id = call.views.server_info().node_id
    return ConfigResource(ResourceType.BROKER, str(node_id) if level == BROKER else "")


async def rows_of(call: Call, level: str) -> list[ConfigRow]:
    return await run_in_slices(call.views.metadata.describe_configs(resource_of(call, level)))


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


def broker_quotas_json(views: Views) -> dict[str, Any]:
    return as_json(views.quotas.broker_quotas()) | {"command": alter_brokers(views.server_info())}


def alter_brokers(info: ServerInfo, *, is_default: bool = False) -> str:
    """Return the prefix of the command that changes settings of this broker, or of all."""
    words = [*info.endpoint.tool("kafka-configs.sh"), "--alter"]
    entity = ["--entity-default"] if is_default else ["--entity-name", str(info.node_id)]
    return shlex.join([*words, "--entity-type", "brokers", *entity])


BROKER_QUOTAS: Final = schema_of(BrokerQuotas, "BrokerQuotas", command=Text(max_length=4096))


async def broker_quotas(call: Call) -> Reply:
    answer = broker_quotas_json(call.views)
    return versioned(answer, answer["version"])


ROUTES: Final = (
    Route(
        "GET /api/v1/broker-configs",
        "listBrokerConfigs",
        "The broker's settings: effective value, its source, and the values of all other sources. A broker "
        "that is no gateway leaves out what only gateways use, unless it is set.",
        list_configs,
        {
            200: ResponseSpec(
                "A page of settings, by name; ETag: the version of the dynamic settings", CONFIG_PAGE
            )
        },
        query=(
            Query(
                "level",
                Text(choices=LEVELS),
                "`broker`: all settings of this broker; `default`: the settings for all brokers.",
                default=BROKER,
            ),
            Query("search", Text(), "Only names that contain this text, ignoring case.", default=""),
            Query(
                "dynamic", Flag(), "Only dynamic settings (true), or only those that need a restart (false)."
            ),
            *list_query(limit=LONGEST_PAGE),
        ),
    ),
    Route(
        "PATCH /api/v1/broker-configs",
        "alterBrokerConfigs",
        "Sets and deletes dynamic settings. All changes take effect before the response, or none.",
        alter_configs,
        {
            200: ResponseSpec(
                "The named settings that are set at this level, in their current state", ALTERED
            ),
            412: ResponseSpec("Settings changed in the meantime; `current` has their values", REFUSED),
        },
        query=(Query("validate_only", Flag(), "Change nothing.", default=False),),
        body=_PATCH,
        has_list=True,
        example={
            "ops": [{"key": "num.io.threads", "value": "16"}, {"key": "log.retention.ms", "remove": True}]
        },
        headers=IF_MATCH,
        role=Role.ADMIN,
    ),
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
    Route(
        "GET /api/v1/broker-quotas",
        "getBrokerQuotas",
        "Broker-wide and cluster limits, with their use. PATCH /broker-configs changes them.",
        broker_quotas,
        {200: ResponseSpec("The limits; ETag: the version of the broker's settings", BROKER_QUOTAS)},
    ),
)
