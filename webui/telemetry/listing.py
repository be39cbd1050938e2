"""The tables of subscriptions and of client instances.

Used by the REST lists and by the live streams of the page. Independent of HTTP.
"""

from typing import Any, Final

from broker.control.rows.telemetry import ClientInstanceRow, ClientMetricRow, SubscriptionRow
from webui.tables.json_output import finite, named, tags_json, utc
from webui.tables.listing import Table


def subscription_json(row: SubscriptionRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "metrics": list(row.metrics),
        "interval.ms": row.interval_ms,
        "match": list(row.match),
        "matching": row.matching,
        "version": row.version,
        "changed_at": utc(row.changed_at_ms),
        "changed_by": row.changed_by,
    }


def instance_json(row: ClientInstanceRow) -> dict[str, Any]:
    fields = named(row)
    pushed_ms = fields.pop("last_push_at_ms")
    return fields | {
        "subscriptions": list(row.subscriptions),
        "metrics": list(row.metrics),
        "last_push_at": None if pushed_ms is None else utc(pushed_ms),
    }


def metric_json(row: ClientMetricRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "attributes": tags_json(row.attributes),
        "shape": row.shape,
        "value": finite(row.value),
        "history": {
            "at_ms": [at_ms for at_ms, _ in row.history],
            "values": [finite(value) for _, value in row.history],
        },
    }


SUBSCRIPTIONS: Final[Table[SubscriptionRow]] = Table(
    json=subscription_json,
    words=lambda row: (row.name, *row.metrics, *row.match, row.changed_by),
    natural="name",
    order=lambda row: row.name,
    sorts={
        "interval": lambda row: row.interval_ms,
        "matching": lambda row: row.matching,
        "changed": lambda row: row.changed_at_ms,
    },
    shapes={"unused": lambda row: row.matching == 0},
)

INSTANCES: Final[Table[ClientInstanceRow]] = Table(
    json=instance_json,
    words=lambda row: (
        row.client_id,
        row.instance_id,
        row.principal,
        row.address,
        f"{row.software_name} {row.software_version}",
        *row.subscriptions,
    ),
    natural="client",
    order=lambda row: (row.client_id, row.instance_id),
    sorts={
        "software": lambda row: (row.software_name, row.software_version),
        "address": lambda row: row.address,
        "interval": lambda row: row.interval_ms,
        "pushes": lambda row: row.pushes,
        "pushed": lambda row: row.last_push_at_ms,
        "errors": lambda row: row.errors,
        "series": lambda row: row.series,
    },
    shapes={
        "pushing": lambda row: row.pushes > 0,
        "silent": lambda row: row.pushes == 0,
        "unsubscribed": lambda row: not row.subscriptions,
        "failing": lambda row: row.errors > 0 or row.last_error != "",
    },
)
