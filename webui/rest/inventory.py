"""GET /connections, /topics and /groups, as lists and single items; DELETE of one connection."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from broker.control.closing import CloseConnection
from broker.control.views import ConnectionRow, GroupDetail, GroupRow, PartitionRow, TopicRow
from webui.rest.problem import PROBLEM, Problem
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route, page_of, page_query, page_schema
from webui.rest.schema import COUNT, NAME, TIME, Flag, Listing, Names, Number, Record, Schema, Text
from webui.tables.json_output import connection_json, named
from webui.tables.listing import Table
from webui.tables.slices import collect

CONNECTION: Final = Record(
    {
        "connection_id": NAME,
        "listener": NAME,
        "protocol": NAME,
        "principal": NAME,
        "client_id": NAME,
        "software_name": NAME,
        "software_version": NAME,
        "address": NAME,
        "opened_at": TIME,
        "requests": COUNT,
        "bytes_in": COUNT,
        "bytes_out": COUNT,
        "mute_state": Text(),
        "tls": Text(),
        "obeys": Flag(nullable=True),
    }
)


def topic_json(row: TopicRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "topic_id": row.topic_id.hex(),
        "partitions": row.partitions,
        "internal": row.internal,
        "size_bytes": row.size_bytes,
        "records": row.records,
        "configs": dict(row.configs),
    }


def partition_json(row: PartitionRow) -> dict[str, Any]:
    return named(row)


def group_json(row: GroupRow) -> dict[str, Any]:
    return named(row)


def group_detail_json(detail: GroupDetail) -> dict[str, Any]:
    return group_json(detail.group) | {
        "assignor": detail.assignor,
        "consumers": [
            named(member)
            | {"assigned": [{"topic": topic, "partition": partition} for topic, partition in member.assigned]}
            for member in detail.members
        ],
        "offsets": [named(each) for each in detail.offsets],
    }


CONNECTIONS: Final[Table[ConnectionRow]] = Table(
    json=connection_json,
    search_texts=lambda row: (
        row.connection_id,
        row.client_id,
        row.principal,
        row.address,
        row.software_name,
        row.listener,
    ),
    default_sort="since",
    sort_key=lambda row: (row.opened_at_ms, row.connection_id),
    sorts={
        "client": lambda row: row.client_id.casefold(),
        "principal": lambda row: row.principal.casefold(),
        "address": lambda row: row.address,
        "software": lambda row: (row.software_name.casefold(), row.software_version),
        "listener": lambda row: row.listener,
        "requests": lambda row: row.requests,
        "bytes_in": lambda row: row.bytes_in,
        "bytes_out": lambda row: row.bytes_out,
        "state": lambda row: row.mute_state,
    },
    filters={
        "muted": lambda row: row.mute_state != "not_muted",
        "throttled": lambda row: "throttled" in row.mute_state,
        "tls": lambda row: row.tls != "",
        "plain": lambda row: row.tls == "",
    },
)

TOPICS: Final[Table[TopicRow]] = Table(
    json=topic_json,
    search_texts=lambda row: (row.name,),
    default_sort="name",
    sort_key=lambda row: (row.internal, row.name),
    sorts={
        "partitions": lambda row: row.partitions,
        "size": lambda row: row.size_bytes,
        "records": lambda row: row.records,
    },
    filters={"own": lambda row: not row.internal, "internal": lambda row: row.internal},
)

GROUPS: Final[Table[GroupRow]] = Table(
    json=group_json,
    search_texts=lambda row: (row.group_id, row.state),
    default_sort="name",
    sort_key=lambda row: row.group_id,
    sorts={
        "state": lambda row: row.state,
        "members": lambda row: row.members,
        "lag": lambda row: row.lag,
    },
    filters={
        "behind": lambda row: (row.lag or 0) > 0,
        "empty": lambda row: row.members == 0,
    },
)


Row = TypeVar("Row")

_MAYBE_COUNT = Number(integer=True, least=0, nullable=True)
_TOPIC: Final[dict[str, Schema]] = {
    "name": NAME,
    "topic_id": Text(),
    "partitions": COUNT,
    "internal": Flag(),
    "size_bytes": COUNT,
    "records": COUNT,
    "configs": Names(Text(longest=1_000_000)),
}
TOPIC: Final = Record(_TOPIC)
TOPIC_DETAIL: Final = Record(
    {
        **_TOPIC,
        "partition_list": Listing(
            Record(
                {
                    "index": COUNT,
                    "start": COUNT,
                    "end": COUNT,
                    "size_bytes": COUNT,
                    "segments": COUNT,
                    "offline": Text(longest=10_000),
                    "missing": COUNT,
                }
            ),
            most=1_000_000,
        ),
    }
)
_GROUP: Final[dict[str, Schema]] = {
    "group_id": NAME,
    "state": Text(),
    "protocol": NAME,
    "members": COUNT,
    "lag": _MAYBE_COUNT,
}
GROUP: Final = Record(_GROUP)
_PARTITION: Final[dict[str, Schema]] = {"topic": NAME, "partition": COUNT}
GROUP_DETAIL: Final = Record(
    {
        **_GROUP,
        "assignor": NAME,
        "consumers": Listing(
            Record(
                {
                    "member_id": NAME,
                    "instance_id": Text(longest=32_767, nullable=True),
                    "client_id": NAME,
                    "address": NAME,
                    "assigned": Listing(Record(_PARTITION), most=1_000_000),
                }
            ),
            most=1_000_000,
        ),
        "offsets": Listing(
            Record({**_PARTITION, "committed": COUNT, "end": _MAYBE_COUNT, "lag": _MAYBE_COUNT}),
            most=1_000_000,
        ),
    }
)


async def connections(call: Call) -> Reply:
    return await _listed(call, CONNECTIONS, call.console.backend.views.each_connection())


async def connection(call: Call) -> Reply:
    wanted = call.path_params["id"]
    for row in await collect(call.console.backend.views.each_connection()):
        if row.connection_id == wanted:
            return Reply(connection_json(row))
    raise Problem(404, "Connection not found, or closed.")


async def close_connection(call: Call) -> Reply:
    outcome = await call.console.backend.control.apply(CloseConnection(call.path_params["id"]), call.actor)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    call.console.live.refresh()
    return Reply(b"", status=204)


async def topics(call: Call) -> Reply:
    return await _listed(call, TOPICS, call.console.backend.views.each_topic())


async def topic(call: Call) -> Reply:
    views, wanted = call.console.backend.views, call.path_params["name"]
    row = views.topic(wanted)
    if row is None:
        raise Problem(404, "Topic not found.")
    partitions = await collect(map(partition_json, views.partitions(wanted)))
    return Reply(topic_json(row) | {"partition_list": partitions})


async def groups(call: Call) -> Reply:
    return await _listed(call, GROUPS, call.console.backend.views.each_group())


async def group(call: Call) -> Reply:
    detail = call.console.backend.views.group(call.path_params["group"])
    if detail is None:
        raise Problem(404, "Group not found.")
    return Reply(group_detail_json(detail))


async def _listed(call: Call, table: Table[Row], rows: Iterable[Row]) -> Reply:
    return Reply(await table.page(rows, page_of(call.query)))


def _place(name: str, about: str) -> tuple[Query, ...]:
    return (Query(name, Text(shortest=1), about),)


_GONE: Final[Any] = ResponseSpec("Not found, or no longer present", PROBLEM)
CONNECTION_PAGE: Final = page_schema(CONNECTION)
TOPIC_PAGE: Final = page_schema(TOPIC)
GROUP_PAGE: Final = page_schema(GROUP)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/connections",
        "listConnections",
        "Open connections.",
        connections,
        {200: ResponseSpec("A page of connections", CONNECTION_PAGE)},
        query=page_query(CONNECTIONS),
    ),
    Route(
        "GET",
        "/api/v1/connections/{id}",
        "getConnection",
        "One connection.",
        connection,
        {200: ResponseSpec("The connection", CONNECTION), 404: _GONE},
        path_params=_place("id", "A `connection_id`."),
    ),
    Route(
        "DELETE",
        "/api/v1/connections/{id}",
        "closeConnection",
        "Closes one connection; its client can reconnect. Requires the role editor.",
        close_connection,
        {204: ResponseSpec("The connection is closed"), 404: _GONE},
        path_params=_place("id", "A `connection_id`."),
    ),
    Route(
        "GET",
        "/api/v1/topics",
        "listTopics",
        "Topics, with partitions, records and size.",
        topics,
        {200: ResponseSpec("A page of topics", TOPIC_PAGE)},
        query=page_query(TOPICS),
    ),
    Route(
        "GET",
        "/api/v1/topics/{name}",
        "getTopic",
        "One topic, with its partitions.",
        topic,
        {200: ResponseSpec("The topic", TOPIC_DETAIL), 404: _GONE},
        path_params=_place("name", "Its name."),
    ),
    Route(
        "GET",
        "/api/v1/groups",
        "listGroups",
        "Consumer groups, with their lag.",
        groups,
        {200: ResponseSpec("A page of groups; `lag` is the number of uncommitted records", GROUP_PAGE)},
        query=page_query(GROUPS),
    ),
    Route(
        "GET",
        "/api/v1/groups/{group}",
        "getGroup",
        "One group, with its members, their assignments and its offsets.",
        group,
        {200: ResponseSpec("The group", GROUP_DETAIL), 404: _GONE},
        path_params=_place("group", "Its id."),
    ),
)
