"""GET /groups and /groups:lag; GET and DELETE /groups/{group}; DELETE /groups/{group}/offsets; POST
/groups/{group}/offsets:reset: groups with their members, offsets and lag.

broker.controller checks roles and states, and records changes.
"""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import Role
from broker.controller.group_changes import (
    MAX_PARTITIONS,
    DeleteGroup,
    DeleteGroupOffsets,
    OffsetMove,
    ResetKind,
    ResetOffsets,
    TopicPartitions,
)
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.streams_groups import StreamsGroupRow
from broker.controller.rows.topics import CommittedRow, DeadLettersRow, GroupDetail, GroupRow, MemberRow
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem, problem_schema
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.record_json import LATEST_MOMENT
from webui.rest.replies import no_content
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import fresh, fresh_after, read_schema
from webui.schema import COUNT, NAME, Flag, Invalid, Listing, Number, OneOf, Record, Text
from webui.tables.answers import as_json, as_json_in_steps, schema_of
from webui.tables.json_output import utc
from webui.tables.listing import Table
from webui.tables.slices import collect, run_in_slices

LARGEST: Final = 2**63 - 1
_OFFSET: Final = Number(integer=True, minimum=0, maximum=LARGEST)
_MOMENT: Final = Number(integer=True, minimum=0, maximum=LATEST_MOMENT)
_TARGET: Final = OneOf(
    (
        Record({"earliest": Flag(only=True)}),
        Record({"latest": Flag(only=True)}),
        Record({"timestamp_ms": _MOMENT}),
        Record({"shift": Number(integer=True, minimum=-LARGEST, maximum=LARGEST)}),
        Record({"offset": _OFFSET}),
    )
)
_PARTITION: Final = Number(integer=True, minimum=0, maximum=2**31 - 1)
_TOPIC: Final = Record(
    {"topic": Text(min_length=1), "partitions": Listing(_PARTITION, max_items=MAX_PARTITIONS)},
    optional=frozenset({"partitions"}),
)
MOVE: Final = schema_of(OffsetMove)
RESET: Final = Record({"items": Listing(MOVE), "command": Text(max_length=100_000)})
IN_USE: Final = problem_schema(
    members=Listing(Record({"member_id": NAME, "client_id": NAME, "address": NAME}))
)
MAX_TOPICS: Final = 1_000
OF_SHARE_GROUPS: Final = (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.TIMESTAMP)
"""The kinds that kafka-share-groups.sh has. (Kafka 4.2; that of 4.1 resets nothing yet)"""
LAG: Final = Record(
    {
        "group": Text(max_length=32_767, nullable=True),
        "at_ms": Listing(COUNT),
        "lag": Listing(Number(integer=True, minimum=0, nullable=True)),
        "lost": Listing(Number(integer=True, minimum=0, nullable=True)),
    }
)
LONGEST_LAG_S: Final = 86_400
GROUP: Final = schema_of(GroupRow, "Group")
_DETAIL: Final = msgspec.structs.replace(
    schema_of(
        GroupRow,
        "GroupDetail",
        assignor=NAME,
        consumers=Listing(schema_of(MemberRow), max_items=1_000_000),
        offsets=Listing(schema_of(CommittedRow), max_items=1_000_000),
        streams=schema_of(StreamsGroupRow, "StreamsGroup"),
        dead_letters=schema_of(DeadLettersRow, "DeadLetters"),
    ),
    optional=frozenset({"streams", "dead_letters"}),
)
GROUP_DETAIL: Final = read_schema(_DETAIL)
"""`streams` is that of streams groups, `dead_letters` that of share groups with a dead letter queue."""
GROUP_PAGE: Final = read_schema(page_schema(GROUP))

GROUPS: Final[Table[GroupRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.group_id, row.state, row.group_type),
    default_sort="name",
    sort_key=lambda row: row.group_id,
    sorts={
        "state": lambda row: row.state,
        "type": lambda row: row.group_type,
        "members": lambda row: row.members,
        "lag": lambda row: row.lag,
        "trend": lambda row: row.lag_per_s,
        "worst": lambda row: how_bad(row),
    },
    filters={
        "behind": lambda row: (row.lag or 0) > 0,
        "lost": lambda row: (row.lost or 0) > 0,
        "empty": lambda row: row.members == 0,
    },
)


def how_bad(row: GroupRow) -> tuple[int, int]:
    """Return a measure by which the worst groups come first: those that have lost records, those that fall
    behind, those with lag.
    """
    lag = row.lag or 0
    if row.lost:
        return 3, lag
    if lag and (row.lag_per_s or 0) > 0:
        return 2, lag
    return int(lag > 0), lag


async def groups(call: Call) -> Reply:
    read = await fresh(call, Part.GROUPS)
    rows = call.console.live.lag_history.with_trends(call.views.topics.each_group())
    return Reply(await table_page(call, GROUPS, rows) | read)


async def group(call: Call) -> Reply:
    read = await fresh(call, Part.GROUP, call.path_params["group"])
    detail = await run_in_slices(call.views.topics.group(call.path_params["group"]))
    if detail is None:
        raise Problem(404, "Group not found.")
    consumers = await run_in_slices(_all_in_steps(detail.members))
    offsets = await collect(map(as_json, detail.offsets))
    found: dict[str, Any] = {"assignor": detail.assignor, "consumers": consumers, "offsets": offsets}
    if detail.streams is not None:
        found["streams"] = await run_in_slices(as_json_in_steps(detail.streams))
    if detail.dead_letters is not None:
        found["dead_letters"] = as_json(detail.dead_letters)
    row = call.console.live.lag_history.with_trend(detail.group)
    return Reply(as_json(row) | found | read)


def _all_in_steps(rows: Iterable[msgspec.Struct]) -> Steps[list[dict[str, Any]]]:
    found = []
    for row in rows:
        found.append((yield from as_json_in_steps(row)))
        yield
    return found


async def lag(call: Call) -> Reply:
    group = call.query["group"]
    found = call.console.live.lag_history.columns(group or "", call.query["seconds"])
    return Reply({"group": group} | found)


async def reset(call: Call) -> Reply:
    body, group = call.body, call.path_params["group"]
    (name, value), *_ = body["to"].items()
    kind = ResetKind.TIMESTAMP if name == "timestamp_ms" else ResetKind(name)
    topics = tuple(
        TopicPartitions(each["topic"], tuple(each.get("partitions", ()))) for each in body.get("topics", ())
    )
    command = ResetOffsets(group, kind, int(value), topics, call.query["validate_only"])
    moves: list[OffsetMove] = await _applied(call, command)
    if not command.validate_only:
        call.console.live.refresh()
    await fresh_after(call, Part.GROUP, group)
    detail = await run_in_slices(call.views.topics.group(group))
    line = reset_command(call.views.server_info().endpoint, command, moves, detail)
    return Reply({"items": await collect(map(as_json, moves)), "command": line})


def reset_command(
    endpoint: ClientEndpoint,
    command: ResetOffsets,
    moves: Sequence[OffsetMove],
    group: GroupDetail | None,
) -> str:
    """Return the line of Kafka's tool that does the same, for a POSIX shell; empty if no tool can do it."""
    group_type = "consumer" if group is None else group.group.group_type
    if group_type == "share" and command.kind not in OF_SHARE_GROUPS:
        return ""
    is_of_streams = group_type == "streams"
    if is_of_streams and any(each.before is None for each in moves):
        return ""  # the tool resets only offsets that exist
    tool = {"share": "kafka-share-groups.sh", "streams": "kafka-streams-groups.sh"}.get(
        group_type, "kafka-consumer-groups.sh"
    )
    words = [*endpoint.tool(tool), "--reset-offsets"]
    words += ["--group", command.group_id]
    topics = command.topics
    if is_of_streams and not topics and not _are_sources(moves, group):
        topics = _topics_of(moves)  # --all-input-topics leaves out repartition topics
    for each in topics:
        chosen = f":{','.join(map(str, each.partitions))}" if each.partitions else ""
        words += ["--input-topic" if is_of_streams else "--topic", f"{each.topic}{chosen}"]
    if not topics:
        words.append("--all-input-topics" if is_of_streams else "--all-topics")
    match command.kind:
        case ResetKind.EARLIEST | ResetKind.LATEST:
            words.append(f"--to-{command.kind}")
        case ResetKind.TIMESTAMP:
            words += ["--to-datetime", utc(command.value).removesuffix("Z")]
        case ResetKind.SHIFT:
            words += ["--shift-by", str(command.value)]
        case ResetKind.OFFSET:
            words += ["--to-offset", str(command.value)]
    return shlex.join([*words, "--execute"])


def _are_sources(moves: Sequence[OffsetMove], group: GroupDetail | None) -> bool:
    """Return whether all of the topics are source topics of the group's topology."""
    topology = None if group is None or group.streams is None else group.streams.topology
    others = {each.topic for each in moves}
    for subtopology in () if topology is None else topology.subtopologies:
        others.difference_update(subtopology.source_topics)
    return not others


def _topics_of(moves: Sequence[OffsetMove]) -> tuple[TopicPartitions, ...]:
    found: dict[str, list[int]] = {}
    for each in moves:
        found.setdefault(each.topic, []).append(each.partition)
    return tuple(TopicPartitions(topic, tuple(partitions)) for topic, partitions in found.items())


async def delete_group(call: Call) -> Reply:
    await _applied(call, DeleteGroup(call.path_params["group"]))
    call.console.live.refresh()
    return no_content()


async def delete_offsets(call: Call) -> Reply:
    if call.query["topic"] is None:
        raise Invalid("topic", "is missing")
    await _applied(call, DeleteGroupOffsets(call.path_params["group"], call.query["topic"]))
    call.console.live.refresh()
    return no_content()


async def _applied(call: Call, command: Any) -> Any:
    """Run a command. Raises Problem with the members of a group that is in use."""
    try:
        return await call.apply(command)
    except ApiError as error:
        if error.code is not ErrorCode.NON_EMPTY_GROUP:
            raise
        refused = Problem.of(error.code, error.message)
    await fresh_after(call, Part.GROUP, call.path_params["group"])
    found = await run_in_slices(call.views.topics.group(call.path_params["group"]))
    refused.members["members"] = [
        {"member_id": each.member_id, "client_id": each.client_id, "address": each.address}
        for each in (() if found is None else found.members)
    ]
    raise refused


_MISSING: Final = ResponseSpec("Not found, or no longer present", PROBLEM)
_GROUP: Final = (PathName("group", Text(min_length=1), "The group's id."),)
_GONE: Final = ResponseSpec("The group, or a topic, does not exist", PROBLEM)
_USED: Final = ResponseSpec("The group has members: `members`", IN_USE)

ROUTES: Final = (
    Route(
        "GET /api/v1/groups",
        "listGroups",
        "Groups of all types, with their lag.",
        groups,
        {
            200: ResponseSpec(
                "A page of groups; `lag` is the number of uncommitted records, `lost` of those that are "
                "deleted by now, `lag_per_s` the growth of the lag in the last `lag_trend_s` seconds, ten "
                "minutes once so much is known. The order "
                "`worst`, descending, has groups with lost records first, then those that fall behind",
                GROUP_PAGE,
            )
        },
        query=page_query(GROUPS),
    ),
    Route(
        "GET /api/v1/groups/{group}",
        "getGroup",
        "One group, with its members, their assignments and its offsets; a streams group with its topology "
        "and tasks, a share group with the number of its dead letters since the start.",
        group,
        {
            200: ResponseSpec(
                "The group. A streams group has `streams`, and so have its members: the topology, the status "
                "that its members receive if its topics do not suit it, and each task with its role now "
                "(null: not yet) and in the target assignment (null: no longer). A share group with a dead "
                "letter queue, now or since the start, has `dead_letters`; its `topic` is empty if it has no "
                "queue any more",
                GROUP_DETAIL,
            ),
            404: _MISSING,
        },
        path_params=_GROUP,
    ),
    Route(
        "GET /api/v1/groups:lag",
        "getGroupLag",
        "The lag of a group over time, or of all groups together: the last hour by ten seconds, or the last "
        "day by five minutes. Kept in memory, for the 500 groups with the largest lag; at a gateway while "
        "a page or a lag alert reads the groups.",
        lag,
        {
            200: ResponseSpec(
                "Times, and at each the lag and the lost records in it; null where they are not known", LAG
            )
        },
        query=(
            Query("group", Text(min_length=1), "A group's id; without it, all groups together."),
            Query(
                "seconds",
                Number(integer=True, minimum=60, maximum=LONGEST_LAG_S),
                "How far back.",
                default=3_600,
            ),
        ),
    ),
    Route(
        "POST /api/v1/groups/{group}/offsets:reset",
        "resetGroupOffsets",
        "Sets the committed offsets of a group without members: to the earliest or latest offset, the first "
        "record from a time on, an offset, or shifted by a number of records; limited to the offsets that "
        "exist. Without `topics`, those of all partitions with committed offsets. With validate_only, only "
        "says what would change. Requires the role editor.",
        reset,
        {
            200: ResponseSpec(
                "Each partition's old and new offset; `end` is the end of the partition; `command` is the "
                "same for Kafka's tool (of 4.2 for share groups), empty where it has none: a share group's "
                "offset, or a shift, or an offset that a streams group has not committed",
                RESET,
            ),
            404: _GONE,
            409: _USED,
        },
        query=(Query("validate_only", Flag(), "Only preview; change nothing.", default=False),),
        body=Record(
            {"to": _TARGET, "topics": Listing(_TOPIC, max_items=MAX_TOPICS)}, optional=frozenset({"topics"})
        ),
        has_list=True,
        path_params=_GROUP,
        has_slashes=True,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/groups/{group}",
        "deleteGroup",
        "Deletes a group without members, with its committed offsets. Requires the role editor.",
        delete_group,
        {204: ResponseSpec("The group is deleted"), 404: _GONE, 409: _USED},
        path_params=_GROUP,
    ),
    Route(
        "DELETE /api/v1/groups/{group}/offsets",
        "deleteGroupOffsets",
        "Deletes a group's committed offsets of one topic that no member consumes. Requires the role editor.",
        delete_offsets,
        {
            204: ResponseSpec("The offsets are deleted"),
            404: _GONE,
            409: ResponseSpec("A member consumes the topic", IN_USE),
        },
        query=(Query("topic", Text(min_length=1), "The topic. Required."),),
        path_params=_GROUP,
        has_slashes=True,
    ),
)
