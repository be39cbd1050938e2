"""The table of quota rules: rows, search and sort columns.

Used by GET /client-quotas and by the live stream of the quotas page. Works on rows that broker.control has
already filtered. Independent of HTTP.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.control.views import QuotaLimit, QuotaRow
from webui.quotas.entities import LIMIT_KEYS, json_of, order_of, shape_of
from webui.tables.json_output import finite, utc
from webui.tables.listing import Page, Table

SHAPES: Final = ("user", "client-id", "user+client-id", "ip", "default")
"""Kinds of rules; "default" selects rules with a default entity."""


async def listed(rows: Iterable[QuotaRow], page: Page) -> dict[str, Any]:
    return await RULES.cut(rows, page)


def row_json(row: QuotaRow) -> dict[str, Any]:
    return {
        "entity": json_of(row.entity),
        "limits": {limit.key: _limit_json(limit) for limit in row.limits},
        "shadow": row.shadow,
        "version": row.version,
        "changed_at": utc(row.changed_at_ms),
        "changed_by": row.changed_by,
    }


def _limit_json(limit: QuotaLimit) -> dict[str, Any]:
    shadow = limit.shadow
    would_have = (
        None
        if shadow is None
        else {
            "times": shadow.times,
            "held_ms": shadow.held_ms,
            "last_at": None if shadow.last_at_ms is None else utc(shadow.last_at_ms),
        }
    )
    return ({} if would_have is None else {"would_have": would_have}) | {
        "value": limit.value,
        "observed": finite(limit.observed),
        "used": finite(limit.used),
        "throttled": limit.throttled,
        "changed_at": utc(limit.changed_at_ms),
        "changed_by": limit.changed_by,
    }


def _is(shape: str) -> Callable[[QuotaRow], bool]:
    if shape == "default":
        return lambda row: any(name is None for _, name in row.entity)
    return lambda row: shape_of(row.entity) == shape


def _value(key: str) -> Callable[[QuotaRow], float | None]:
    return lambda row: row.value(key)


def _used(row: QuotaRow) -> float | None:
    return max((used for limit in row.limits if (used := finite(limit.used)) is not None), default=None)


RULES: Final[Table[QuotaRow]] = Table(
    json=row_json,
    words=lambda row: [name or "<default>" for _, name in row.entity],
    natural="entity",
    order=lambda row: order_of(row.entity),
    sorts={
        "changed": lambda row: row.changed_at_ms,
        "used": _used,
        **{key: _value(key) for key in LIMIT_KEYS},
    },
    shapes={shape: _is(shape) for shape in SHAPES},
)
