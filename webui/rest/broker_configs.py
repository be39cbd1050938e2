"""GET and PATCH /broker-configs: the broker's settings with their sources, and changes of the dynamic ones.

The same commands as DescribeConfigs and IncrementalAlterConfigs of a broker. broker.controller validates,
checks roles and versions, and records changes.
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.controller.commands import (
    ConfigAlteration,
    ConfigResource,
    IncrementalAlterConfigs,
    ResourceType,
    Role,
)
from broker.controller.rows.broker import ConfigRow
from webui.problem import problem_schema, raise_refusal
from webui.rest.broker_quotas import alter_brokers
from webui.rest.configs import OPS, Config, Synonym, config_json, config_op, is_dynamic
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.replies import IF_MATCH, expected_version, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Flag, Listing, Record, Text
from webui.tables.answers import schema_of
from webui.tables.listing import LONGEST_PAGE
from webui.tables.slices import run_in_slices

_SOURCE: Final = Text(choices=("dynamic-broker", "dynamic-default", "file", "default"))
CONFIG: Final = schema_of(
    Config, "BrokerConfig", source=_SOURCE, synonyms=Listing(schema_of(Synonym, source=_SOURCE))
)

_LEVEL: Final = Text(choices=("broker", "default"))
CONFIG_PAGE: Final = page_schema(CONFIG, level=_LEVEL, version=COUNT, command=Text(max_length=4096))
ALTERED: Final = Record(
    {"level": _LEVEL, "version": COUNT, "command": Text(max_length=4096), "items": Listing(CONFIG)}
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
    rows = [row for row in await rows_of(call, level) if search in row.name.lower()]
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
    return _configs(call, level, {"items": rows})


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


ROUTES: Final = (
    Route(
        "GET /api/v1/broker-configs",
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
)
