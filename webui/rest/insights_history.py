"""GET /insights/advice:history: the quota that each entity needed on each day, beside its present limit.

The days come from the pipeline's tables, the limits from this broker's rules. A limit is only added to rows
of this broker's cluster, and to rows without a cluster.
"""

from typing import Final

import msgspec

from broker.common.principal import ANONYMOUS
from webui.insights import queries
from webui.insights.queries import ClientFilter
from webui.insights.statements import Scope, Selection
from webui.quotas import json_of
from webui.rest.insights import page_body, reply
from webui.rest.routing import Call, Reply
from webui.tables.slices import collect

MAX_ROWS: Final = 100
"""Each row has up to 92 days; a page of 100 rows is some 300 kB."""


class _Row(msgspec.Struct):
    """A row of the tables. Its lists stay encoded: they are long, and only passed on."""

    cluster: str | None
    user: str | None
    client_id: str | None
    key: str
    days: msgspec.Raw
    needed: msgspec.Raw
    peak: msgspec.Raw
    recommended: msgspec.Raw
    oldest: float | None
    newest: float | None
    highest: float | None
    growth: float | None
    recommended_now: float | None
    limit: float | None = None
    rule: dict[str, str | None] = msgspec.field(default_factory=dict)


class _Page(msgspec.Struct):
    first: str = msgspec.field(name="from")
    last: str = msgspec.field(name="to")
    cluster: str | None
    version: int
    written_at: str | None
    items: list[_Row]
    next: str | None


def selection(call: Call, scope: Scope) -> Selection:
    clients = ClientFilter(call.query["user"], call.query["client_id"])
    return queries.advice_history(scope, clients, call.query["key"])


async def history(call: Call) -> Reply:
    page = msgspec.json.decode(await page_body(call, selection), type=_Page)
    await _add_limits(call, page.items)
    return reply(call, msgspec.json.encode(page))


async def _add_limits(call: Call, rows: list[_Row]) -> None:
    overview = call.views.overview()
    # A gateway has the limits of its upstream cluster; "" until it has found that.
    own = overview.cluster_id if overview.upstream is None else overview.upstream.cluster_id
    ours = [row for row in rows if row.cluster is None or not own or row.cluster == own]
    clients = [(ANONYMOUS if row.user is None else row.user, row.client_id or "") for row in ours]
    keys = {row.key for row in ours}
    for row, limits in zip(ours, await collect(call.views.quotas.resolve_all(clients, keys)), strict=True):
        for now, _ in limits:
            if now.key == row.key:
                row.limit = now.bound
                row.rule = {} if now.matched is None else json_of(now.matched)
