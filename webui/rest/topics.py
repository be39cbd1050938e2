"""GET and POST /topics; GET and DELETE /topics/{name}; PUT /topics/{name}/partitions; GET and PATCH
/topics/{name}/configs: topics, with their partitions and settings.

The same commands as CreateTopics, CreatePartitions, DeleteTopics and IncrementalAlterConfigs.
broker.controller validates, checks roles and versions, and records changes.
"""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewPartitions,
    NewTopic,
    OpType,
    ResourceType,
    Role,
    TopicRef,
)
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.topics import PartitionRow, TopicClientRow, TopicGroupRow, TopicRow
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem, problem_schema
from webui.rest.configs import LONGEST_VALUE, OPS, Config, config_json, config_op
from webui.rest.paging import list_page, list_query, page_query, page_schema, table_page
from webui.rest.replies import IF_MATCH, created, etag, expected_version, no_content, path_of, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import fresh, fresh_after, now, read_ms, read_schema
from webui.schema import COUNT, NAME, Flag, Listing, Maybe, Names, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table
from webui.tables.slices import collect, run_in_slices

MAX_COUNT: Final = 2**31 - 1
BY_DEFAULT: Final = -1
"""The broker's default, as in CreateTopics."""

TOPIC: Final = schema_of(TopicRow, "Topic")
TOPIC_DETAIL: Final = read_schema(
    schema_of(TopicRow, "TopicDetail", partition_list=Listing(schema_of(PartitionRow), max_items=1_000_000))
)
TOPIC_PAGE: Final = read_schema(page_schema(TOPIC))
CREATED: Final = Record(
    {
        "name": NAME,
        "partitions": COUNT,
        "replication_factor": COUNT,
        "configs": Names(Text(max_length=LONGEST_VALUE)),
        "command": Text(max_length=1_000_000),
    }
)
PARTITIONS: Final = Record({"before": COUNT, "count": COUNT, "command": Text(max_length=10_000)})
REFUSED_COUNT: Final = problem_schema(current=Maybe(COUNT))

TOPICS: Final[Table[TopicRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.name,),
    default_sort="name",
    sort_key=lambda row: (row.internal, row.name),
    sorts={
        "partitions": lambda row: row.partitions,
        "size": lambda row: row.size_bytes,
        "records": lambda row: row.records,
        "records_in": lambda row: row.records_in_per_s,
        "in": lambda row: row.bytes_in_per_s,
        "out": lambda row: row.bytes_out_per_s,
        "groups": lambda row: row.groups,
        "written": lambda row: row.last_write_ms,
    },
    filters={"own": lambda row: not row.internal, "internal": lambda row: row.internal},
)


TOPIC_GROUPS: Final[Table[TopicGroupRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.group_id,),
    default_sort="name",
    sort_key=lambda row: row.group_id,
    sorts={"lag": lambda row: row.lag, "members": lambda row: row.members},
)
TOPIC_GROUP_PAGE: Final = read_schema(page_schema(schema_of(TopicGroupRow, "TopicGroup")))


TOPIC_CLIENTS: Final[Table[TopicClientRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.client_id, row.principal, f"{row.software_name} {row.software_version}"),
    default_sort="client",
    sort_key=lambda row: (row.client_id, row.principal, row.software_name, row.software_version),
    sorts={"connections": lambda row: row.connections},
)
TOPIC_CLIENT_PAGE: Final = page_schema(schema_of(TopicClientRow, "TopicClient"))


async def topics(call: Call) -> Reply:
    read = await fresh(call, Part.TOPICS)
    rows = call.console.live.topic_rates.rows(read_ms(call.views, Part.TOPICS, call.console.now_ms()))
    return Reply(await table_page(call, TOPICS, rows) | read)


async def topic(call: Call) -> Reply:
    wanted = call.path_params["name"]
    read = await fresh(call, Part.TOPICS)
    row = call.views.topics.topic(wanted)
    if row is None:
        raise Problem(404, "Topic not found.")
    at_ms = read_ms(call.views, Part.TOPICS, call.console.now_ms())
    row = call.console.live.topic_rates.with_rates(row, at_ms)
    partitions = await collect(map(as_json, call.views.topics.partitions(wanted)))
    return versioned(as_json(row) | {"partition_list": partitions} | read, row.version)


async def topic_groups(call: Call) -> Reply:
    name = call.path_params["name"]
    await fresh(call, Part.TOPICS)
    if not call.views.topics.has_topic(name):
        raise Problem(404, "Topic not found.")
    read = await fresh(call, Part.GROUPS)
    rows = await run_in_slices(call.views.topics.groups_of_topic(name))
    return Reply(await table_page(call, TOPIC_GROUPS, rows) | read)


async def topic_clients(call: Call) -> Reply:
    name = call.path_params["name"]
    await fresh(call, Part.TOPICS)
    topic_id = call.views.topics.topic_id(name)
    if topic_id is None:
        raise Problem(404, "Topic not found.")
    rows = await run_in_slices(call.views.live.clients_of_topic(name, topic_id))
    return Reply(await table_page(call, TOPIC_CLIENTS, rows))


async def create_topic(call: Call) -> Reply:
    body = call.body
    topic = NewTopic(
        body["name"],
        body.get("partitions", BY_DEFAULT),
        body.get("replication_factor", BY_DEFAULT),
        tuple(body.get("configs", {}).items()),
    )
    validate_only = call.query["validate_only"]
    (outcome,) = await call.apply(CreateTopics((topic,), validate_only))
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    configs = dict(outcome.configs)
    answer: dict[str, Any] = {
        "name": topic.name,
        "partitions": outcome.partitions,
        "replication_factor": outcome.replication_factor,
        "configs": configs,
        "command": create_command(
            call.views.server_info().endpoint,
            topic.name,
            outcome.partitions,
            outcome.replication_factor,
            configs,
        ),
    }
    if validate_only:
        return Reply(answer)
    call.console.live.refresh()
    await fresh_after(call, Part.TOPICS)
    made, place = call.views.topics.topic(topic.name), path_of("topics", topic.name)
    if made is None:  # the upstream broker that was asked does not know of it yet, or it is gone
        return Reply(answer, 201, {"Location": place})
    return created(answer, place, made.version)


async def delete_topic(call: Call) -> Reply:
    name = call.path_params["name"]
    command = DeleteTopics((TopicRef(name, expected_version=expected_version(call.headers)),))
    (outcome,) = await call.apply(command)
    if not outcome.ok:
        raise topic_problem(outcome.error, outcome.message, name)
    call.console.live.refresh()
    return no_content()


async def set_partitions(call: Call) -> Reply:
    name, count = call.path_params["name"], call.body["count"]
    expected, validate_only = expected_version(call.headers), call.query["validate_only"]
    # What a gateway has read is of some seconds ago: there, the outcome tells.
    before = None if call.views.is_gateway else existing(call).partitions
    if before is None or count > before:
        command = CreatePartitions((NewPartitions(name, count, expected_version=expected),), validate_only)
        (outcome,) = await call.apply(command)
        before = outcome.before if before is None else before
        if not outcome.ok and (before is None or count >= before):
            raise topic_problem(outcome.error, outcome.message, name)
        if outcome.ok and not validate_only:
            call.console.live.refresh()
            await fresh_after(call, Part.TOPICS)
    if before is not None and count < before:
        detail = f"{name} has {before} partitions; their number can only increase."
        raise Problem(409, detail, code=ErrorCode.INVALID_PARTITIONS.name, current=before)
    words = call.views.server_info().endpoint.tool("kafka-topics.sh")
    line = shlex.join([*words, "--alter", "--topic", name, "--partitions", str(count)])
    row = call.views.topics.topic(name)
    headers = {} if row is None else {"ETag": etag(row.version)}
    return Reply({"before": before, "count": count, "command": line}, headers=headers)


def existing(call: Call) -> TopicRow:
    row = call.views.topics.topic(call.path_params["name"])
    if row is None:
        raise Problem(404, "Topic not found.")
    return row


def version_header(call: Call) -> dict[str, str]:
    return {"ETag": etag(existing(call).version)}


def topic_problem(error: ErrorCode, message: str | None, name: str) -> Problem:
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Problem.of(error, f"The topic {name} does not exist.")
    return Problem.of(error, message)


def create_command(
    endpoint: ClientEndpoint, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> str:
    """Return the kafka-topics.sh line that creates a topic, for a POSIX shell."""
    words = [*endpoint.tool("kafka-topics.sh"), "--create", "--topic", name]
    words += ["--partitions", str(partitions), "--replication-factor", str(replicas)]
    for key, value in configs.items():
        words += ["--config", f"{key}={value}"]
    return shlex.join(words)


_MISSING: Final = ResponseSpec("Not found, or no longer present", PROBLEM)
NAME_OF_TOPIC: Final = (Query("name", Text(min_length=1), "The topic's name."),)
VALIDATE: Final = Query("validate_only", Flag(), "Only check and preview; change nothing.", default=False)
GONE: Final = ResponseSpec("The topic does not exist", PROBLEM)
_STALE: Final = ResponseSpec("The topic changed in the meantime", PROBLEM)


TOPIC_CONFIG: Final = schema_of(Config)
TOPIC_CONFIGS: Final = read_schema(page_schema(TOPIC_CONFIG))
EDITED_CONFIGS: Final = Record({"items": Listing(TOPIC_CONFIG), "command": Text(max_length=1_000_000)})
REFUSED_CONFIGS: Final = problem_schema(current=Listing(TOPIC_CONFIG))


async def list_configs(call: Call) -> Reply:
    await fresh(call, Part.TOPICS)
    existing(call)
    read = await fresh(call, Part.TOPIC_CONFIGS, call.path_params["name"])
    rows = await _configs(call)
    page = await list_page(call, rows, lambda row: row, lambda row: row["name"])
    return Reply(page | read, headers=version_header(call))


async def alter_configs(call: Call) -> Reply:
    name = call.path_params["name"]
    ops = tuple(config_op(op) for op in call.body["ops"])
    resource = ConfigResource(ResourceType.TOPIC, name)
    alteration = ConfigAlteration(resource, ops, expected_version(call.headers))
    validate_only = call.query["validate_only"]
    command = IncrementalAlterConfigs((alteration,), validate_only)
    (outcome,) = await call.apply(command)
    named = {op.key for op in ops}
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        await now(call, Part.TOPIC_CONFIGS, name)
        current = [row for row in await _configs(call) if row["name"] in named]
        raise Problem.of(outcome.error, outcome.message, current=current)
    if not outcome.ok:
        raise topic_problem(outcome.error, outcome.message, name)
    if not validate_only:
        call.console.live.refresh()
    line = configs_command(call.views.server_info().endpoint, name, ops)
    try:
        await fresh(call, Part.TOPICS)
        items = [row for row in await _configs(call) if row["name"] in named]
        headers = version_header(call)
    except (ApiError, Problem):
        if validate_only or not call.views.is_gateway:
            raise
        items, headers = [], {}  # it is made, and cannot be read now
    return Reply({"items": items, "command": line}, headers=headers)


async def _configs(call: Call) -> list[dict[str, Any]]:
    name = call.path_params["name"]
    await fresh(call, Part.TOPIC_CONFIGS, name)
    resource = ConfigResource(ResourceType.TOPIC, name)
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
        "GET /api/v1/topics",
        "listTopics",
        "Topics, with partitions, records, size, retention and, from the second request on, rates.",
        topics,
        {200: ResponseSpec("A page of topics", TOPIC_PAGE)},
        query=page_query(TOPICS),
    ),
    Route(
        "GET /api/v1/topics/{name}",
        "getTopic",
        "One topic, with its partitions.",
        topic,
        {200: ResponseSpec("The topic; ETag: its version", TOPIC_DETAIL), 404: _MISSING},
        path_params=NAME_OF_TOPIC,
    ),
    Route(
        "GET /api/v1/topics/{name}/groups",
        "listTopicGroups",
        "The groups that have read a topic: those with a committed offset, or a share group's start offset.",
        topic_groups,
        {200: ResponseSpec("A page of groups; `lag` is that of the topic", TOPIC_GROUP_PAGE), 404: _MISSING},
        query=page_query(TOPIC_GROUPS),
        path_params=NAME_OF_TOPIC,
    ),
    Route(
        "GET /api/v1/topics/{name}/clients",
        "listTopicClients",
        "The connected clients that have written to a topic or read from it since they connected; at "
        "a gateway those that have named it through this gateway in a Produce or a Fetch.",
        topic_clients,
        {200: ResponseSpec("A page of clients", TOPIC_CLIENT_PAGE), 404: _MISSING},
        query=page_query(TOPIC_CLIENTS),
        path_params=NAME_OF_TOPIC,
    ),
    Route(
        "POST /api/v1/topics",
        "createTopic",
        "Creates a topic, validated as CreateTopics does. What is left out is the broker's default. "
        "Requires the role editor.",
        create_topic,
        {
            200: ResponseSpec("With validate_only: the topic that would be created", CREATED),
            201: ResponseSpec("The topic; Location: its path, ETag: its version", CREATED),
            409: ResponseSpec("A topic of this name exists", PROBLEM),
        },
        query=(VALIDATE,),
        example={"name": "orders", "partitions": 6, "configs": {"retention.ms": "86400000"}},
        body=Record(
            {
                "name": Text(max_length=1_024),
                "partitions": Number(integer=True, minimum=1, maximum=MAX_COUNT),
                "replication_factor": Number(integer=True, minimum=1, maximum=32_767),
                "configs": Names(Text(max_length=LONGEST_VALUE)),
            },
            optional=frozenset({"partitions", "replication_factor", "configs"}),
        ),
        has_list=True,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/topics/{name}",
        "deleteTopic",
        "Deletes a topic with its records and its committed offsets. Cannot be undone. Requires the role "
        "admin.",
        delete_topic,
        {
            204: ResponseSpec("The topic is deleted"),
            404: GONE,
            409: ResponseSpec("delete.topic.enable is false", PROBLEM),
            412: _STALE,
        },
        headers=IF_MATCH,
        path_params=NAME_OF_TOPIC,
    ),
    Route(
        "PUT /api/v1/topics/{name}/partitions",
        "setPartitions",
        "Sets the number of a topic's partitions, which can only increase. Records with a key go to other "
        "partitions afterwards. Requires the role editor.",
        set_partitions,
        {
            200: ResponseSpec("The number before and now", PARTITIONS),
            404: GONE,
            409: ResponseSpec("The topic has more partitions: `current`", REFUSED_COUNT),
            412: _STALE,
        },
        query=(VALIDATE,),
        body=Record({"count": Number(integer=True, minimum=1, maximum=MAX_COUNT)}),
        headers=IF_MATCH,
        path_params=NAME_OF_TOPIC,
        role=Role.EDITOR,
    ),
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
