"""GET and PATCH /topics/{name}/configs: a topic's settings with their sources, and changes of them.

The same commands as DescribeConfigs and IncrementalAlterConfigs of a topic. broker.controller validates,
checks roles and versions, and records changes.
"""

import shlex
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
from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.problem import Problem, problem_schema
from webui.rest.configs import OPS, Config, config_json, config_op
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.replies import IF_MATCH, expected_version
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.rest.topics import GONE, NAME_OF_TOPIC, VALIDATE, existing, topic_problem, version_header
from webui.rest.upstream import refuse_for_gateway
from webui.schema import Listing, Record, Text
from webui.tables.answers import schema_of
from webui.tables.slices import collect, run_in_slices

TOPIC_CONFIG: Final = schema_of(Config)
TOPIC_CONFIGS: Final = page_schema(TOPIC_CONFIG)
EDITED_CONFIGS: Final = Record({"items": Listing(TOPIC_CONFIG), "command": Text(max_length=1_000_000)})
REFUSED_CONFIGS: Final = problem_schema(current=Listing(TOPIC_CONFIG))


async def list_configs(call: Call) -> Reply:
    refuse_for_gateway(call.views, "topics")
    existing(call)
    rows = await _configs(call)
    page = await list_page(call, rows, lambda row: row, lambda row: row["name"])
    return Reply(page, headers=version_header(call))


async def alter_configs(call: Call) -> Reply:
    name = call.path_params["name"]
    refuse_for_gateway(call.views, "topics")
    ops = tuple(config_op(op) for op in call.body["ops"])
    resource = ConfigResource(ResourceType.TOPIC, name)
    alteration = ConfigAlteration(resource, ops, expected_version(call.headers))
    validate_only = call.query["validate_only"]
    command = IncrementalAlterConfigs((alteration,), validate_only)
    (outcome,) = await call.apply(command)
    named = {op.key for op in ops}
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        current = [row for row in await _configs(call) if row["name"] in named]
        raise Problem.of(outcome.error, outcome.message, current=current)
    if not outcome.ok:
        raise topic_problem(outcome.error, outcome.message, name)
    if not validate_only:
        call.console.live.refresh()
    items = [row for row in await _configs(call) if row["name"] in named]
    line = configs_command(call.views.server_info().endpoint, name, ops)
    return Reply({"items": items, "command": line}, headers=version_header(call))


async def _configs(call: Call) -> list[dict[str, Any]]:
    resource = ConfigResource(ResourceType.TOPIC, call.path_params["name"])
    rows = await run_in_slices(call.views.metadata.describe_configs(resource))
    return await collect(map(config_json, rows))


def configs_command(endpoint: ClientEndpoint, name: str, ops: tuple[ConfigOp, ...]) -> str:
    """Return the kafka-configs.sh line of an edit; "" for an edit of list items, which the tool cannot do."""
    if any(op.op not in (OpType.SET, OpType.DELETE) for op in ops):
        return ""
    words = [*endpoint.tool("kafka-configs.sh"), "--alter", "--entity-type", "topics"]
    words += ["--entity-name", name]
    # The tool splits values at commas, unless they are in brackets.
    added = [
        f"{op.key}=[{op.value}]" if "," in (op.value or "") else f"{op.key}={op.value}"
        for op in ops
        if op.op == OpType.SET
    ]
    deleted = [op.key for op in ops if op.op == OpType.DELETE]
    words += ["--add-config", ",".join(added)] if added else []
    words += ["--delete-config", ",".join(deleted)] if deleted else []
    return shlex.join(words)


ROUTES: Final = (
    Route(
        "GET /api/v1/topics/{name}/configs",
        "listTopicConfigs",
        "A topic's settings: value in force, its source, the values of all other sources, documentation.",
        list_configs,
        {200: ResponseSpec("The settings, by name; ETag: the topic's version", TOPIC_CONFIGS), 404: GONE},
        query=list_query(),
        path_params=NAME_OF_TOPIC,
    ),
    Route(
        "PATCH /api/v1/topics/{name}/configs",
        "alterTopicConfigs",
        "Sets and removes settings of a topic, as IncrementalAlterConfigs does. All changes take effect "
        "before the response, or none. Requires the role editor.",
        alter_configs,
        {
            200: ResponseSpec(
                "The named settings after the change; ETag: the topic's version", EDITED_CONFIGS
            ),
            404: GONE,
            412: ResponseSpec("The topic changed; `current` has the named settings", REFUSED_CONFIGS),
        },
        query=(VALIDATE,),
        body=Record({"ops": OPS}),
        has_list=True,
        headers=IF_MATCH,
        path_params=NAME_OF_TOPIC,
        role=Role.EDITOR,
    ),
)
