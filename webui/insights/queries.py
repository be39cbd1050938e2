"""Each question about the gold tables as one SQL statement over one table, `t`.

Used by webui.rest.insights; run by webui.insights.worker. Pure: independent of files, processes and HTTP.
Every statement restricts its days and columns, so that only these are read. Columns named `at` are
microseconds since 1970 in UTC.
"""

from datetime import date
from typing import Final

import msgspec

from broker.principal import ANONYMOUS
from webui.insights import tables

STEP_US: Final = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
NEARLY: Final = 0.8
"""Utilisation from which a limit counts as nearly used up; the pages use the same threshold."""


class Days(msgspec.Struct, frozen=True):
    """UTC days, both inclusive."""

    first: date
    last: date


class TableQuery(msgspec.Struct, frozen=True):
    """One question. `sql` has a total order, so that pages are consistent, and no LIMIT."""

    table: str
    sql: str
    days: Days


class ClientFilter(msgspec.Struct, frozen=True):
    """A filter by user and client id; None matches all."""

    user: str | None = None
    client_id: str | None = None


class _Where(msgspec.Struct):
    days: Days
    terms: list[str] = msgspec.field(default_factory=list)

    def equal(self, column: str, value: str | None) -> "_Where":
        if value is not None:
            self.terms.append(f"{column} = {literal(value)}")
        return self

    def __str__(self) -> str:
        days = f"date >= DATE '{self.days.first}' AND date <= DATE '{self.days.last}'"
        return " AND ".join((days, *self.terms))


def literal(text: str) -> str:
    """Quote a text for SQL; the quote is the only special character."""
    return "'" + text.replace("'", "''") + "'"


def usage(days: Days, clients: ClientFilter, by: str, sort: str) -> TableQuery:
    """Return usage per tenant or client, highest first. A tenant is a user, or the client id of an
    unauthenticated client.
    """
    client_id = (
        f"CASE WHEN principal = {literal(ANONYMOUS)} THEN client_id END" if by == "tenant" else "client_id"
    )
    sql = (
        f'SELECT * FROM (SELECT principal AS "user", {client_id} AS client_id, {_USED}, count(*) AS minutes '
        f"FROM t WHERE {_of_clients(days, clients)} GROUP BY 1, 2) ORDER BY {USAGE_SORTS[sort]} DESC, 1, 2"
    )
    return TableQuery(tables.USAGE, sql, days)


def usage_series(days: Days, clients: ClientFilter, step: str) -> TableQuery:
    return _series(tables.USAGE, _of_clients(days, clients), step, _USED)


def throttling(days: Days, clients: ClientFilter) -> TableQuery:
    """Return throttles per rule and client, the longest throttle time first."""
    sql = (
        f'SELECT kind, rule, principal AS "user", client_id, {_HELD}, '
        f"{_at('min')} AS first_at, {_at('max')} AS last_at "
        f"FROM t WHERE {_of_clients(days, clients)} GROUP BY 1, 2, 3, 4 ORDER BY throttle_ms DESC, 1, 2, 3, 4"
    )
    return TableQuery(tables.THROTTLING, sql, days)


def throttling_series(days: Days, clients: ClientFilter, step: str) -> TableQuery:
    return _series(tables.THROTTLING, _of_clients(days, clients), step, _HELD)


def latency(days: Days, api: str | None) -> TableQuery:
    """Return latency per API and phase, the API with the most requests first. Quantiles of minutes cannot be
    merged exactly: `p50_us` and `p95_us` are means of the minutes weighted by requests, `p99_us` is the worst
    minute's.
    """
    sql = (
        "SELECT api, phase, timed, p50_us, p95_us, p99_us, max_us FROM ("
        "SELECT *, max(timed) OVER (PARTITION BY api) AS asked FROM ("
        f"SELECT api, phase, {_TOOK} FROM t WHERE {_Where(days).equal('api', api)} GROUP BY 1, 2"
        ")) ORDER BY asked DESC, 1, 2"
    )
    return TableQuery(tables.LATENCY, sql, days)


def latency_series(days: Days, api: str | None, phase: str, step: str) -> TableQuery:
    where = _Where(days).equal("api", api).equal("phase", phase)
    return _series(tables.LATENCY, where, step, _TOOK)


def utilisation(days: Days) -> TableQuery:
    """Return utilisation per rule, key and the clients that share the limit, highest first."""
    sql = (
        "SELECT key, rule, sharer, max(utilisation) AS peak, avg(utilisation) AS mean, count(*) AS minutes, "
        f"sum(CASE WHEN utilisation >= {NEARLY} THEN 1 ELSE 0 END) AS minutes_nearly, "
        "sum(CASE WHEN utilisation >= 1 THEN 1 ELSE 0 END) AS minutes_at_limit, "
        'last_value("limit" ORDER BY minute) AS bound '
        f"FROM t WHERE {_Where(days)} GROUP BY 1, 2, 3 ORDER BY peak DESC, 1, 2, 3"
    )
    return TableQuery(tables.UTILISATION, sql, days)


def storms(days: Days, address: str | None) -> TableQuery:
    """Return connection storms per minute and address, newest first."""
    sql = (
        f"SELECT {_US} AS at, node, listener, address, attempts, opened, refused, throttled "
        f"FROM t WHERE {_Where(days).equal('address', address)} "
        "ORDER BY at DESC, attempts DESC, address, listener, node"
    )
    return TableQuery(tables.STORMS, sql, days)


def shared_client_ids(days: Days) -> TableQuery:
    sql = (
        "SELECT date AS day, client_id, principals, addresses, connections, is_shared_by_principals "
        f"FROM t WHERE {_Where(days)} ORDER BY day DESC, is_shared_by_principals DESC, client_id"
    )
    return TableQuery(tables.SHARED_CLIENT_IDS, sql, days)


def offenders(days: Days, by: str | None) -> TableQuery:
    sql = (
        'SELECT date AS day, by, rank, principal AS "user", client_id, total, share '
        f"FROM t WHERE {_Where(days).equal('by', by)} ORDER BY day DESC, by, rank"
    )
    return TableQuery(tables.OFFENDERS, sql, days)


def throttle_compliance(days: Days, clients: ClientFilter) -> TableQuery:
    """Return throttle compliance per day, client and client software, the most early sends first."""
    sql = (
        'SELECT date AS day, principal AS "user", client_id, software_name, software_version, connections, '
        "throttles, throttle_ms, waited, sent_early, early_share, obeys "
        f"FROM t WHERE {_of_clients(days, clients)} "
        "ORDER BY sent_early DESC, throttles DESC, day DESC, 2, 3, software_name, software_version"
    )
    return TableQuery(tables.THROTTLE_COMPLIANCE, sql, days)


def client_metrics(days: Days, clients: ClientFilter, metric: str | None) -> TableQuery:
    """Return pushed metrics per metric and client, over all instances and attributes. `mean` is the mean of
    the points.
    """
    where = _of_clients(days, clients).equal("metric", metric)
    sql = (
        f'SELECT metric, shape, principal AS "user", client_id, {_SAID}, '
        f"count(DISTINCT client_instance_id) AS instances, {_at('max')} AS last_at "
        f"FROM t WHERE {where} GROUP BY 1, 2, 3, 4 ORDER BY metric, shape, 3, 4"
    )
    return TableQuery(tables.CLIENT_METRICS, sql, days)


def client_metrics_series(days: Days, clients: ClientFilter, metric: str, step: str) -> TableQuery:
    where = _of_clients(days, clients).equal("metric", metric)
    return _series(tables.CLIENT_METRICS, where, step, _SAID)


def lost_records(days: Days) -> TableQuery:
    """Return the records that the pipeline could not read, per topic and cluster, the most first. `first_at`
    and `last_at` are the times of the records after the gaps.
    """
    sql = (
        'SELECT topic, "cluster", sum(records) AS records, count(*) AS gaps, '
        f"{_at('min', TIME)} AS first_at, {_at('max', TIME)} AS last_at "
        f"FROM t WHERE {_Where(days)} GROUP BY 1, 2 ORDER BY records DESC, 1, 2"
    )
    return TableQuery(tables.LOST, sql, days)


def advice(days: Days, clients: ClientFilter) -> TableQuery:
    """Return the recommendations of the newest day, for each entity and key."""
    where = _Where(days).equal('"user"', clients.user).equal("client_id", clients.client_id)
    columns = (
        'date AS day, "user", client_id, key, minutes, needed, peak, recommended, throttled_minutes, '
        "throttled_share, reason"
    )
    newest = 'row_number() OVER (PARTITION BY "user", client_id, key ORDER BY date DESC)'
    sql = (
        'SELECT day, "user", client_id, key, minutes, needed, peak, recommended, throttled_minutes, '
        f"throttled_share, reason FROM (SELECT {columns}, {newest} AS place FROM t WHERE {where}) "
        'WHERE place = 1 ORDER BY "user" NULLS LAST, client_id, key'
    )
    return TableQuery(tables.ADVICE, sql, days)


_USED: Final = (
    "sum(produce_bytes) AS produce_bytes, sum(fetch_bytes) AS fetch_bytes, sum(requests) AS requests, "
    "sum(errors) AS errors, sum(throttle_ms) AS throttle_ms, sum(handler_us) AS handler_us"
)
USAGE_SORTS: Final = {
    "bytes": "produce_bytes + fetch_bytes",
    "produce_bytes": "produce_bytes",
    "fetch_bytes": "fetch_bytes",
    "requests": "requests",
    "errors": "errors",
    "throttle_ms": "throttle_ms",
    "handler_us": "handler_us",
}
_HELD: Final = "sum(throttles) AS throttles, sum(throttle_ms) AS throttle_ms, max(longest_ms) AS longest_ms"
_TOOK: Final = (
    "sum(timed) AS timed, sum(timed * p50_us) / sum(timed) AS p50_us, "
    "sum(timed * p95_us) / sum(timed) AS p95_us, max(p99_us) AS p99_us, max(max_us) AS max_us"
)
_SAID: Final = (
    "sum(points) AS points, min(min) AS least, max(max) AS most, sum(mean * points) / sum(points) AS mean, "
    "sum(increase) AS increase, sum(count) AS counted, sum(sum) AS total"
)
TIME: Final = '"time"'
_US: Final = "CAST(minute AS BIGINT)"
"""Grouping by integers is three times as fast as date_trunc."""


def _at(aggregate: str, column: str = "minute") -> str:
    return f"CAST({aggregate}({column}) AS BIGINT)"


def _of_clients(days: Days, clients: ClientFilter) -> _Where:
    return _Where(days).equal("principal", clients.user).equal("client_id", clients.client_id)


def _series(table: str, where: _Where, step: str, measures: str) -> TableQuery:
    size = STEP_US[step]
    sql = f"SELECT {_US} / {size} * {size} AS at, {measures} FROM t WHERE {where} GROUP BY 1 ORDER BY 1"
    return TableQuery(table, sql, where.days)
