"""The table of quota rules: searched, sorted and cut to a page, as JSON.

Used by GET /client-quotas and by the live stream of the quotas page, which therefore cannot disagree. Works
on rows that control has already filtered; knows nothing of HTTP.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from broker.control.views import QuotaLimit, QuotaRow
from webui.quotas.entities import LIMIT_KEYS, json_of, order_of, shape_of
from webui.shapes import finite, utc

SHAPES: Final = ("user", "client-id", "user+client-id", "ip", "default")
SORTS: Final = ("entity", "changed", "used", *LIMIT_KEYS)
LONGEST_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """`search` is looked for in the names; `shape` "default" means rules with a default in them."""

    search: str = ""
    shape: str | None = None
    sort: str = "entity"
    descending: bool = False
    offset: int = 0
    limit: int = 100


def listed(rows: Iterable[QuotaRow], page: Page) -> dict[str, Any]:
    """The page, and how many rows there are behind it: `total` of those that match, `of` without a filter."""
    everything = list(rows)
    found = [row for row in everything if _matches(row, page)]
    found.sort(key=lambda row: order_of(row.entity))
    if page.sort == "entity":
        if page.descending:
            found.reverse()
    else:
        measure = _measure(page.sort)
        # Rows without the figure go last, whichever way the others are sorted.
        with_it = [row for row in found if measure(row) is not None]
        with_it.sort(key=lambda row: measure(row) or 0.0, reverse=page.descending)
        found = with_it + [row for row in found if measure(row) is None]
    return {
        "items": [row_json(row) for row in found[page.offset : page.offset + page.limit]],
        "total": len(found),
        "of": len(everything),
        "offset": page.offset,
        "limit": page.limit,
    }


def row_json(row: QuotaRow) -> dict[str, Any]:
    return {
        "entity": json_of(row.entity),
        "limits": {limit.key: _limit_json(limit) for limit in row.limits},
        "version": row.version,
        "changed_at": utc(row.changed_at_ms),
        "changed_by": row.changed_by,
    }


def _limit_json(limit: QuotaLimit) -> dict[str, Any]:
    return {
        "value": limit.value,
        "observed": finite(limit.observed),
        "used": finite(limit.used),
        "throttled": limit.throttled,
        "changed_at": utc(limit.changed_at_ms),
        "changed_by": limit.changed_by,
    }


def _matches(row: QuotaRow, page: Page) -> bool:
    if page.shape == "default":
        if all(name is not None for _, name in row.entity):
            return False
    elif page.shape is not None and shape_of(row.entity) != page.shape:
        return False
    needle = page.search.casefold()
    return not needle or any(needle in (name or "<default>").casefold() for _, name in row.entity)


def _measure(sort: str) -> Callable[[QuotaRow], float | None]:
    if sort == "changed":
        return lambda row: row.changed_at_ms
    if sort == "used":
        return lambda row: max(
            (used for limit in row.limits if (used := finite(limit.used)) is not None), default=None
        )
    return lambda row: row.value(sort)
