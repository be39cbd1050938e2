"""The table of clients and their usage, limited or not.

Used by GET /usage and by the live stream of the quotas page, which shows the unlimited ones.
"""

from typing import Any, Final

from broker.control.views import ClientUsage
from webui.tables.json_output import utc
from webui.tables.listing import Page, Table

STEP_MS: Final = 5_000
"""Time step of the history."""

MAX_UNLIMITED: Final = 8
"""Number of unlimited clients shown on the quotas page."""


def usage_json(row: ClientUsage) -> dict[str, Any]:
    history = row.history()
    bytes_in, bytes_out, requests = zip(*history, strict=True) if history else ((), (), ())
    return {
        "user": row.user,
        "client_id": row.client_id,
        "connections": row.connections,
        "bytes_in_per_s": row.bytes_in_per_s,
        "bytes_out_per_s": row.bytes_out_per_s,
        "requests_per_s": row.requests_per_s,
        "request_percentage": row.request_percentage,
        "bytes_in": row.bytes_in,
        "bytes_out": row.bytes_out,
        "requests": row.requests,
        "since": utc(row.since_at_ms),
        "last_active_at": utc(row.last_active_at_ms),
        "limited_by": list(row.limited_by),
        "history": {"step_ms": STEP_MS, "bytes_in": bytes_in, "bytes_out": bytes_out, "requests": requests},
    }


def _bytes(row: ClientUsage) -> float:
    return row.bytes_in_per_s + row.bytes_out_per_s


USAGE: Final = Table(
    json=usage_json,
    words=lambda row: (row.user, row.client_id),
    natural="use",
    order=lambda row: (-_bytes(row), row.user, row.client_id),
    sorts={
        "bytes_in": lambda row: row.bytes_in_per_s,
        "bytes_out": lambda row: row.bytes_out_per_s,
        "requests": lambda row: row.requests_per_s,
        "request_percentage": lambda row: row.request_percentage,
        "connections": lambda row: row.connections,
        "active": lambda row: row.last_active_at_ms,
    },
    shapes={
        "unlimited": lambda row: not row.limited_by,
        "limited": lambda row: bool(row.limited_by),
        "idle": lambda row: not row.connections,
    },
)

UNLIMITED: Final = Page(shape="unlimited", limit=MAX_UNLIMITED)
