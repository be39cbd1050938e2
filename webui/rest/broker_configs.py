"""GET and PATCH /broker-configs: the broker's settings with their sources, and changes of the dynamic ones.
GET and PUT /request-log: the requests that the broker logs.

The same commands as DescribeConfigs and IncrementalAlterConfigs of a broker. broker.controller validates,
checks roles and versions, and records changes. The request log consists of the request.log.* settings, so
its changes are audited, survive a restart and are visible through Kafka's tools.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.common.errors import ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
    Role,
)
from broker.controller.describe import UNKNOWN_TYPE, ConfigSource
from broker.controller.rows.broker import ConfigRow
from webui.problem import Problem, problem_schema, raise_refusal
from webui.rest.broker_quotas import alter_brokers
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import IF_MATCH, Call, Query, Reply, ResponseSpec, Route, etag, expected_version
from webui.schema import COUNT, NAME, Flag, Invalid, Listing, Number, OneOf, Record, Schema, Text
from webui.tables.listing import LONGEST_PAGE
from webui.tables.slices import run_in_slices

_SOURCE: Final = Text(choices=("dynamic-broker", "dynamic-default", "file", "default"))

_ANY_VALUE: Final = Text(max_length=1_000_000, nullable=True)

CONFIG: Final = Record(
    {
        "name": NAME,
        "value": _ANY_VALUE,
        "source": _SOURCE,
        "type": Text(),
        "dynamic": Flag(),
        "sensitive": Flag(),
        "documentation": Text(max_length=8_192),
        "default": _ANY_VALUE,
        "default_words": Text(),
        "allowed": Text(max_length=8_192),
        "choices": Listing(NAME),
        "unit": Text(),
        "per_broker": Flag(),
        "synonyms": Listing(Record({"name": NAME, "value": _ANY_VALUE, "source": _SOURCE})),
    },
    title="BrokerConfig",
)

_LEVEL: Final = Text(choices=("broker", "default"))
CONFIG_PAGE: Final = page_schema(CONFIG, level=_LEVEL, version=COUNT, command=Text(max_length=4096))
ALTERED: Final = Record(
    {"level": _LEVEL, "version": COUNT, "command": Text(max_length=4096), "items": Listing(CONFIG)}
)


BROKER: Final = "broker"
DEFAULT: Final = "default"
LEVELS: Final = (BROKER, DEFAULT)

SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "dynamic-broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "dynamic-default",
    ConfigSource.STATIC_BROKER: "file",
    ConfigSource.DEFAULT: "default",
}
TYPES: Final = {
    UNKNOWN_TYPE: "unknown",
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
"""DescribeConfigs' ConfigType."""

LONGEST_VALUE: Final = 32_767
MAX_OPS: Final = 100

_KEY: Final = Text(max_length=256, min_length=1)
_VALUE: Final = Text(max_length=LONGEST_VALUE)
OPS: Final = Listing(
    OneOf(
        (
            Record({"key": _KEY, "value": _VALUE}),
            Record({"key": _KEY, "remove": Flag(only=True)}),
            Record({"key": _KEY, "append": _VALUE}),
            Record({"key": _KEY, "subtract": _VALUE}),
        )
    ),
    min_items=1,
    max_items=MAX_OPS,
)
_PATCH: Final = Record(
    {"level": Text(choices=LEVELS), "ops": OPS},
    optional=frozenset({"level"}),
)

REFUSED: Final = problem_schema(current=Listing(CONFIG))

APIS: Final = "request.log.apis"
CLIENT_IDS: Final = "request.log.client.ids"
MOST: Final = "request.log.max.per.second"

_NAMES: Final = Listing(Text(max_length=256), max_items=100)
_LOG: Final[dict[str, Schema]] = {
    "apis": _NAMES,
    "client_ids": _NAMES,
    "max_per_second": Number(integer=True, minimum=1, maximum=10_000),
}
REQUEST_LOG: Final = Record(_LOG, title="RequestLog")
REFUSED_LOG: Final = problem_schema(current=REQUEST_LOG)


async def list_configs(call: Call) -> Reply:
    level, search = call.query["level"], call.query["search"].lower()
    rows = [row for row in await _rows(call, level) if search in row.name.lower()]
    if call.query["dynamic"] is not None:
        rows = [row for row in rows if _is_dynamic(row) is call.query["dynamic"]]
    page = await list_page(call, rows, config_json, lambda row: row.name)
    return _configs(call, level, page)


async def alter_configs(call: Call) -> Reply:
    level = call.body.get("level", BROKER)
    ops = tuple(config_op(op) for op in call.body["ops"])
    alteration = ConfigAlteration(_resource(call, level), ops, expected_version(call.headers))
    command = IncrementalAlterConfigs((alteration,), call.query["validate_only"])
    (outcome,) = await call.console.backend.control.apply(command, call.actor)
    named = {op.key for op in ops}
    rows = [config_json(row) for row in await _rows(call, level) if row.name in named]
    raise_refusal(outcome, rows)
    return _configs(call, level, {"items": rows})


def _configs(call: Call, level: str, listed: Mapping[str, Any]) -> Reply:
    """`command` is the prefix of the command that changes settings at this level."""
    version = call.console.backend.views.metadata.broker_config_version(_resource(call, level).name)
    command = alter_brokers(call.console.backend.views.server_info(), is_default=level == DEFAULT)
    answer = {"level": level, "version": version, "command": command, **listed}
    return Reply(answer, headers={"ETag": etag(version)})


def _version(call: Call, level: str) -> dict[str, str]:
    return {
        "ETag": etag(call.console.backend.views.metadata.broker_config_version(_resource(call, level).name))
    }


def _resource(call: Call, level: str) -> ConfigResource:
    node_id = call.console.backend.views.server_info().node_id
    return ConfigResource(ResourceType.BROKER, str(node_id) if level == BROKER else "")


async def _rows(call: Call, level: str) -> list[ConfigRow]:
    return await run_in_slices(call.console.backend.views.metadata.describe_configs(_resource(call, level)))


def config_op(op: dict[str, Any]) -> ConfigOp:
    match op:
        case {"value": value}:
            return ConfigOp(op["key"], OpType.SET, value)
        case {"append": value}:
            return ConfigOp(op["key"], OpType.APPEND, value)
        case {"subtract": value}:
            return ConfigOp(op["key"], OpType.SUBTRACT, value)
    return ConfigOp(op["key"], OpType.DELETE)


def config_json(row: ConfigRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "value": row.value,
        "source": SOURCES[ConfigSource(row.source)],
        "type": TYPES[row.type],
        "dynamic": _is_dynamic(row),
        "sensitive": row.sensitive,
        "documentation": row.documentation,
        "default": row.range.default,
        "default_words": row.range.default_words,
        "allowed": row.range.allowed,
        "choices": list(row.range.choices),
        "unit": row.range.unit,
        "per_broker": row.range.per_broker,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": SOURCES[ConfigSource(each.source)]}
            for each in row.synonyms
        ],
    }


def _is_dynamic(row: ConfigRow) -> bool:
    """Return whether the setting can be changed now. By DescribeConfigs, unknown keys cannot be."""
    return not row.read_only or row.type == UNKNOWN_TYPE


async def get_request_log(call: Call) -> Reply:
    return Reply(await _shown(call), headers=_version(call, BROKER))


async def put_request_log(call: Call) -> Reply:
    wanted = {
        APIS: _joined(call.body["apis"], "apis"),
        CLIENT_IDS: _joined(call.body["client_ids"], "client_ids"),
        MOST: str(call.body["max_per_second"]),
    }
    ops = tuple(ConfigOp(key, OpType.SET, value) for key, value in wanted.items())
    command = IncrementalAlterConfigs(
        (ConfigAlteration(_resource(call, BROKER), ops, expected_version(call.headers)),)
    )
    (outcome,) = await call.console.backend.control.apply(command, call.actor)
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem.of(outcome.error, outcome.message, current=await _shown(call))
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    return Reply(await _shown(call), headers=_version(call, BROKER))


async def _shown(call: Call) -> dict[str, Any]:
    rows = {row.name: row.value or "" for row in await _rows(call, BROKER)}
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
        "/api/v1/broker-configs",
        "listBrokerConfigs",
        "The broker's settings: effective value, its source, and the values of all other sources.",
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
        "PATCH",
        "/api/v1/broker-configs",
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
        "GET",
        "/api/v1/request-log",
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
        "PUT",
        "/api/v1/request-log",
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
