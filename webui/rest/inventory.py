"""GET /connections, /topics and /groups, as lists and single items; DELETE of one connection."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from broker.controller.closing import CloseConnection
from broker.controller.rows.connections import ConnectionRow
from broker.controller.rows.topics import CommittedRow, GroupRow, MemberRow, PartitionRow, TopicRow
from broker.views.connection_search import (
    DEFAULT_SORT,
    FILTERS,
    SORTS,
    ConnectionQuery,
    natural_order,
    search_texts,
)
from broker.views.console import Views
from webui.problem import PROBLEM, Problem
from webui.rest.paging import page_of, page_query, page_schema, table_page
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route, etag, no_content
from webui.rest.upstream import refuse_for_gateway
from webui.schema import COUNT, NAME, Listing, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Page, RemoteRows, Table
from webui.tables.slices import collect, run_in_slices

PARTITIONS_AT_ONCE: Final = 128
"""Partitions of a member between two pauses."""

CONNECTION: Final = schema_of(ConnectionRow, "Connection")


def consumers_json(members: Iterable[MemberRow]) -> Iterator[dict[str, Any] | None]:
    """Yield None after every few partitions of a member."""
    for member in members:
        assigned: list[dict[str, Any]] = []
        for topic, partition in member.assigned:
            assigned.append({"topic": topic, "partition": partition})
            if len(assigned) % PARTITIONS_AT_ONCE == 0:
                yield None
        yield msgspec.structs.asdict(member) | {"assigned": assigned}


CONNECTIONS: Final[Table[ConnectionRow]] = Table(
    json=as_json,
    search_texts=search_texts,
    default_sort=DEFAULT_SORT,
    sort_key=natural_order,
    sorts=SORTS,
    filters=FILTERS,
)

TOPICS: Final[Table[TopicRow]] = Table(
    json=as_json,
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


TOPIC: Final = schema_of(TopicRow, "Topic")
TOPIC_DETAIL: Final = schema_of(
    TopicRow, "TopicDetail", partition_list=Listing(schema_of(PartitionRow), max_items=1_000_000)
)
GROUP: Final = schema_of(GroupRow, "Group")
GROUP_DETAIL: Final = schema_of(
    GroupRow,
    "GroupDetail",
    assignor=NAME,
    consumers=Listing(schema_of(MemberRow), max_items=1_000_000),
    offsets=Listing(schema_of(CommittedRow), max_items=1_000_000),
)


async def connections(call: Call) -> Reply:
    views = call.console.backend.views
    others = await remote_rows(views, page_of(call))
    return Reply(
        await table_page(call, CONNECTIONS, chain(views.live.each_connection(), others.rows), others)
    )


async def remote_rows(views: Views, page: Page) -> "RemoteRows":
    """Ask the other gateways that share limits for what belongs to the page."""
    rows = page.given + page.limit
    query = ConnectionQuery(page.search, page.filter, page.sort, page.descending, rows)
    found = await views.shares.connections(query)
    more = found.total - len(found.rows), found.of - len(found.rows)
    return RemoteRows(found.rows, *more, {"unlisted": found.unlisted, "unanswered": found.unanswered})


async def connection(call: Call) -> Reply:
    wanted = call.path_params["id"]
    for row in await collect(call.console.backend.views.live.each_connection()):
        if row.connection_id == wanted:
            return Reply(as_json(row))
    raise Problem(404, "Connection not found, or closed.")


async def close_connection(call: Call) -> Reply:
    outcome = await call.console.backend.control.apply(CloseConnection(call.path_params["id"]), call.actor)
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message)
    call.console.live.refresh()
    return no_content()


async def topics(call: Call) -> Reply:
    refuse_for_gateway(call.console.backend.views, "topics")
    return Reply(await table_page(call, TOPICS, call.console.backend.views.topics.each_topic()))


async def topic(call: Call) -> Reply:
    views, wanted = call.console.backend.views, call.path_params["name"]
    refuse_for_gateway(views, "topics")
    row = views.topics.topic(wanted)
    if row is None:
        raise Problem(404, "Topic not found.")
    partitions = await collect(map(as_json, views.topics.partitions(wanted)))
    return Reply(as_json(row) | {"partition_list": partitions}, headers={"ETag": etag(row.version)})


async def groups(call: Call) -> Reply:
    refuse_for_gateway(call.console.backend.views, "groups")
    return Reply(await table_page(call, GROUPS, call.console.backend.views.topics.each_group()))


async def group(call: Call) -> Reply:
    views = call.console.backend.views
    refuse_for_gateway(views, "groups")
    detail = await run_in_slices(views.topics.group(call.path_params["group"]))
    if detail is None:
        raise Problem(404, "Group not found.")
    consumers = await collect(consumers_json(detail.members))
    offsets = await collect(map(as_json, detail.offsets))
    found = {"assignor": detail.assignor, "consumers": consumers, "offsets": offsets}
    return Reply(as_json(detail.group) | found)


def _place(name: str, about: str) -> tuple[Query, ...]:
    return (Query(name, Text(min_length=1), about),)


_GONE: Final[Any] = ResponseSpec("Not found, or no longer present", PROBLEM)
_UPSTREAM: Final = ResponseSpec("This is a gateway: they are the upstream cluster's", PROBLEM)
CONNECTION_PAGE: Final = page_schema(CONNECTION, unlisted=COUNT, unanswered=COUNT)
TOPIC_PAGE: Final = page_schema(TOPIC)
GROUP_PAGE: Final = page_schema(GROUP)

ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/connections",
        "listConnections",
        "Open connections. Where gateways share limits, those of all gateways: `gateway` is the id of the "
        "other one, which alone can close it. A gateway lists its first 500 rows at most: of those that "
        "belong to the page, `unlisted` are missing. `unanswered` gateways gave no answer in two seconds.",
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
        {200: ResponseSpec("A page of topics", TOPIC_PAGE), 404: _UPSTREAM},
        query=page_query(TOPICS),
    ),
    Route(
        "GET",
        "/api/v1/topics/{name}",
        "getTopic",
        "One topic, with its partitions.",
        topic,
        {200: ResponseSpec("The topic; ETag: its version", TOPIC_DETAIL), 404: _GONE},
        path_params=_place("name", "Its name."),
    ),
    Route(
        "GET",
        "/api/v1/groups",
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
        "GET",
        "/api/v1/groups/{group}",
        "getGroup",
        "One group, with its members, their assignments and its offsets.",
        group,
        {200: ResponseSpec("The group", GROUP_DETAIL), 404: _GONE},
        path_params=(PathName("group", Text(min_length=1), "Its id."),),
    ),
)
