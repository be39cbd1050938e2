"""GET /groups and /groups:lag; GET and DELETE /groups/{group}; DELETE /groups/{group}/offsets; POST
/groups/{group}/offsets:reset: groups with their members, offsets and lag.

broker.controller checks roles and states, and records changes.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from broker.common.errors import ApiError, ErrorCode
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
from broker.controller.rows.topics import CommittedRow, GroupRow, MemberRow
from webui.problem import PROBLEM, Problem, problem_schema
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.record_json import LATEST_MOMENT
from webui.rest.replies import no_content
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import refuse_for_gateway
from webui.schema import COUNT, NAME, Flag, Invalid, Listing, Number, OneOf, Record, Text
from webui.tables.answers import as_json, schema_of
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
    }
)
LONGEST_LAG_S: Final = 86_400
GROUP: Final = schema_of(GroupRow, "Group")
GROUP_DETAIL: Final = schema_of(
    GroupRow,
    "GroupDetail",
    assignor=NAME,
    consumers=Listing(schema_of(MemberRow), max_items=1_000_000),
    offsets=Listing(schema_of(CommittedRow), max_items=1_000_000),
)
GROUP_PAGE: Final = page_schema(GROUP)

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
    },
    filters={
        "behind": lambda row: (row.lag or 0) > 0,
        "empty": lambda row: row.members == 0,
    },
)


async def groups(call: Call) -> Reply:
    refuse_for_gateway(call.views, "groups")
    return Reply(await table_page(call, GROUPS, call.views.topics.each_group()))


async def group(call: Call) -> Reply:
    refuse_for_gateway(call.views, "groups")
    detail = await run_in_slices(call.views.topics.group(call.path_params["group"]))
    if detail is None:
        raise Problem(404, "Group not found.")
    consumers = await collect(consumers_json(detail.members))
    offsets = await collect(map(as_json, detail.offsets))
    found = {"assignor": detail.assignor, "consumers": consumers, "offsets": offsets}
    return Reply(as_json(detail.group) | found)


def consumers_json(members: Iterable[MemberRow]) -> Iterator[dict[str, Any] | None]:
    """Yield None after every partition of a member."""
    for member in members:
        assigned: list[dict[str, Any]] = []
        for topic, partition in member.assigned:
            assigned.append({"topic": topic, "partition": partition})
            yield None
        yield msgspec.structs.asdict(member) | {"assigned": assigned}


async def lag(call: Call) -> Reply:
    refuse_for_gateway(call.views, "groups")
    group = call.query["group"]
    found = call.console.live.lag_history.columns(group or "", call.query["seconds"])
    return Reply({"group": group} | found)


async def reset(call: Call) -> Reply:
    body, group = call.body, call.path_params["group"]
    refuse_for_gateway(call.views, "groups")
    (name, value), *_ = body["to"].items()
    kind = ResetKind.TIMESTAMP if name == "timestamp_ms" else ResetKind(name)
    topics = tuple(
        TopicPartitions(each["topic"], tuple(each.get("partitions", ()))) for each in body.get("topics", ())
    )
    command = ResetOffsets(group, kind, int(value), topics, call.query["validate_only"])
    moves: list[OffsetMove] = await _applied(call, command)
    if not command.validate_only:
        call.console.live.refresh()
    detail = await run_in_slices(call.views.topics.group(group))
    is_share = detail is not None and detail.group.group_type == "share"
    line = reset_command(call.views.server_info().endpoint, command, is_share=is_share)
    return Reply({"items": await collect(map(as_json, moves)), "command": line})


def reset_command(endpoint: ClientEndpoint, command: ResetOffsets, *, is_share: bool) -> str:
    """Return the line of Kafka's tool that does the same, for a POSIX shell; empty if no tool can do it."""
    if is_share and command.kind not in OF_SHARE_GROUPS:
        return ""
    tool = "kafka-share-groups.sh" if is_share else "kafka-consumer-groups.sh"
    words = [*endpoint.tool(tool), "--reset-offsets"]
    words += ["--group", command.group_id]
    for each in command.topics:
        chosen = f":{','.join(map(str, each.partitions))}" if each.partitions else ""
        words += ["--topic", f"{each.topic}{chosen}"]
    words += [] if command.topics else ["--all-topics"]
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


async def delete_group(call: Call) -> Reply:
    refuse_for_gateway(call.views, "groups")
    await _applied(call, DeleteGroup(call.path_params["group"]))
    call.console.live.refresh()
    return no_content()


async def delete_offsets(call: Call) -> Reply:
    refuse_for_gateway(call.views, "groups")
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
    found = await run_in_slices(call.views.topics.group(call.path_params["group"]))
    refused.members["members"] = [
        {"member_id": each.member_id, "client_id": each.client_id, "address": each.address}
        for each in (() if found is None else found.members)
    ]
    raise refused


_UPSTREAM: Final = ResponseSpec("This is a gateway: they are the upstream cluster's", PROBLEM)
_MISSING: Final = ResponseSpec("Not found, or no longer present", PROBLEM)
_GROUP: Final = (PathName("group", Text(min_length=1), "The group's id."),)
_GONE: Final = ResponseSpec("The group, or a topic, does not exist, or this is a gateway", PROBLEM)
_USED: Final = ResponseSpec("The group has members: `members`", IN_USE)

ROUTES: Final = (
    Route(
        "GET /api/v1/groups",
        "listGroups",
        "Consumer groups, with their lag.",
        groups,
        {
            200: ResponseSpec("A page of groups; `lag` is the number of uncommitted records", GROUP_PAGE),
            404: _UPSTREAM,
        },
        query=page_query(GROUPS),
    ),
    Route(
        "GET /api/v1/groups/{group}",
        "getGroup",
        "One group, with its members, their assignments and its offsets.",
        group,
        {200: ResponseSpec("The group", GROUP_DETAIL), 404: _MISSING},
        path_params=_GROUP,
    ),
    Route(
        "GET /api/v1/groups:lag",
        "getGroupLag",
        "The lag of a group over time, or of all groups together: the last hour by ten seconds, or the last "
        "day by five minutes. Kept in memory, for the 500 groups with the largest lag.",
        lag,
        {
            200: ResponseSpec("Times, and the lag at each; null where it is not known", LAG),
            404: ResponseSpec("This is a gateway: groups are the upstream cluster's", PROBLEM),
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
                "offset, or a shift",
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
