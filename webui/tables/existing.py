"""The tables of connections, topics and groups. tables.listing pages them."""

from typing import Any, Final

from broker.control.views import ConnectionRow, GroupDetail, GroupRow, PartitionRow, TopicRow
from webui.tables.json_output import connection_json, named
from webui.tables.listing import Table


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
    words=lambda row: (
        row.connection_id,
        row.client_id,
        row.principal,
        row.address,
        row.software_name,
        row.listener,
    ),
    natural="since",
    order=lambda row: (row.opened_at_ms, row.connection_id),
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
    shapes={
        "muted": lambda row: row.mute_state != "not_muted",
        "throttled": lambda row: "throttled" in row.mute_state,
        "tls": lambda row: row.tls != "",
        "plain": lambda row: row.tls == "",
    },
)

TOPICS: Final[Table[TopicRow]] = Table(
    json=topic_json,
    words=lambda row: (row.name,),
    natural="name",
    order=lambda row: (row.internal, row.name),
    sorts={
        "partitions": lambda row: row.partitions,
        "size": lambda row: row.size_bytes,
        "records": lambda row: row.records,
    },
    shapes={"own": lambda row: not row.internal, "internal": lambda row: row.internal},
)

GROUPS: Final[Table[GroupRow]] = Table(
    json=group_json,
    words=lambda row: (row.group_id, row.state),
    natural="name",
    order=lambda row: row.group_id,
    sorts={
        "state": lambda row: row.state,
        "members": lambda row: row.members,
        "lag": lambda row: row.lag,
    },
    shapes={
        "behind": lambda row: (row.lag or 0) > 0,
        "empty": lambda row: row.members == 0,
    },
)
