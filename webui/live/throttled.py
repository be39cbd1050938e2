"""Clients throttled in the last hour: the rule, the number of throttles and the longest one.

Filled by live.broadcaster with every snapshot, so that throttles stay visible after they end. Bounded.
Pure: time is an argument.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.fields import Measured, Moment, Node, ShownEntity
from webui.tables.answers import as_json
from webui.tables.listing import Table

KEPT_MS: Final = 3_600_000
MAX_CLIENTS: Final = 1_000
MAX_CONNECTIONS: Final = 10_000

Key = tuple[str, str, str, tuple[tuple[str, str | None], ...], int | None]


class ThrottledClient(msgspec.Struct):
    """One client under one rule, at one upstream node if limits hold there. `times` counts the throttles of
    all its connections; `worst` is the highest ratio of the observed rate to the limit.
    """

    client_id: str
    principal: str
    address: str
    quota_type: str
    entity: ShownEntity
    upstream_node: Node | None
    times: int
    longest_ms: int
    worst: Measured
    first_ms: Moment = msgspec.field(name="first_at")
    last_ms: Moment = msgspec.field(name="last_at")


class RecentThrottles:
    __slots__ = ("_clients", "_counted")

    def __init__(self) -> None:
        self._clients: dict[Key, ThrottledClient] = {}
        self._counted: dict[tuple[str, str, str], int] = {}

    def add(self, rows: Iterable[ThrottledRow], now_ms: int) -> None:
        """Add `rows`, some or all of the channels throttled now."""
        for row in rows:
            key = (row.client_id, row.principal, str(row.quota_type), row.entity, row.upstream_node)
            client = self._clients.get(key)
            if client is None:
                client = self._clients[key] = ThrottledClient(
                    client_id=row.client_id,
                    principal=row.principal,
                    address=row.address,
                    quota_type=str(row.quota_type),
                    entity=row.entity,
                    upstream_node=row.upstream_node,
                    times=0,
                    longest_ms=0,
                    worst=0.0,
                    first_ms=now_ms,
                    last_ms=now_ms,
                )
            client.times += self._new_times(row)
            client.last_ms, client.address = now_ms, row.address
            client.longest_ms = max(client.longest_ms, row.throttle_ms)
            client.worst = max(client.worst, row.observed / row.bound)
        if len(self._clients) > MAX_CLIENTS or len(self._counted) > MAX_CONNECTIONS:
            self._evict()

    def rows(self, now_ms: int) -> list[ThrottledClient]:
        """Return the clients throttled in the last hour."""
        self._clients = {
            key: client for key, client in self._clients.items() if now_ms - client.last_ms < KEPT_MS
        }
        return list(self._clients.values())

    def _new_times(self, row: ThrottledRow) -> int:
        """Return the new throttles of a connection, one for a connection not seen before."""
        connection = (row.gateway, row.connection_id, str(row.quota_type))
        before = self._counted.get(connection, row.times - 1)
        self._counted[connection] = row.times
        return max(row.times - before, 0)

    def _evict(self) -> None:
        """Remove the half that was throttled longest ago, and reset the counts of connections."""
        kept = sorted(self._clients.items(), key=lambda each: each[1].last_ms)[-MAX_CLIENTS // 2 :]
        self._clients = dict(kept)
        self._counted = {}


RECENT_THROTTLES: Final[Table[ThrottledClient]] = Table(
    json=as_json,
    search_texts=lambda row: (
        row.client_id,
        row.principal,
        row.address,
        *(name or "" for _, name in row.entity),
    ),
    default_sort="client",
    sort_key=lambda row: (row.client_id.casefold(), row.principal, row.quota_type, str(row.entity)),
    sorts={
        "last": lambda row: row.last_ms,
        "times": lambda row: row.times,
        "longest": lambda row: row.longest_ms,
        "worst": lambda row: row.worst,
    },
)
