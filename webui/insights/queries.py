"""The SQL statement of each question about the gold tables.

Used by webui.rest.insights; run by webui.insights.worker. Pure: independent of files, processes and HTTP.
Columns named `at`, and those that end with `_at`, are microseconds since 1970 in UTC.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.principal import ANONYMOUS
from webui.insights import tables
from webui.insights.statements import CLUSTER, Scope, Selection, TableQuery, Where, columns, literal

STEP_US: Final = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
NEARLY: Final = 0.8
"""Utilisation from which a limit counts as nearly used up; the pages use the same threshold."""

GB: Final = 1e9

MIN_THROTTLES: Final = 2
MOSTLY: Final = 0.5
HARDLY: Final = 0.125
"""The shares of early sends that make a verdict on a client, as in pipeline.gold.throttling; a test compares
them.
"""

MAX_VERSIONS: Final = 4
"""Versions of client software in a series: those with the most requests."""


class ClientFilter(msgspec.Struct, frozen=True):
    """A filter by user and client id; None matches all."""

    user: str | None = None
    client_id: str | None = None


class Prices(msgspec.Struct, frozen=True):
    """The price of a gigabyte of 10^9 bytes that a client produced or fetched."""

    produced: float
    fetched: float


def usage(scope: Scope, clients: ClientFilter, by: str) -> Selection:
    """Return usage per tenant or client, highest first. A tenant is a user, or the client id of an
    unauthenticated client. Clusters are added up.
    """
    select = (
        f'SELECT principal AS "user", {_client_id(by)} AS client_id, {_USED}, count(*) AS minutes '
        f"FROM t WHERE {_of_clients(scope, clients)} GROUP BY 1, 2"
    )
    all_bytes = {"bytes": "produce_bytes + fetch_bytes"}
    figures = ("produce_bytes", "fetch_bytes", "requests", "errors", "throttle_ms", "handler_us", "minutes")
    sorts = all_bytes | columns("user", "client_id", *figures)
    natural = f'{all_bytes["bytes"]} DESC, "user", client_id'
    return Selection(tables.USAGE, select, natural, sorts, _CLIENT_TEXTS, scope)


def usage_series(scope: Scope, clients: ClientFilter, step: str) -> TableQuery:
    return _series(tables.USAGE, _of_clients(scope, clients), step, _USED)


def cost(scope: Scope, clients: ClientFilter, by: str, prices: Prices) -> Selection:
    """Return the cost of the bytes of each tenant or client, highest first; `share` is its share of the cost
    of all rows. Clusters are added up.
    """
    select = (
        "SELECT *, CASE WHEN sum(cost) OVER () > 0 THEN cost / sum(cost) OVER () END AS share FROM ("
        "SELECT *, produced_cost + fetched_cost AS cost FROM ("
        f'SELECT principal AS "user", {_client_id(by)} AS client_id, {_BYTES}, {_costs(prices)} '
        f"FROM t WHERE {_of_clients(scope, clients)} GROUP BY 1, 2))"
    )
    figures = ("produce_bytes", "fetch_bytes", "produced_cost", "fetched_cost", "cost", "share")
    sorts = columns("user", "client_id", *figures)
    natural = 'cost DESC, produce_bytes + fetch_bytes DESC, "user", client_id'
    return Selection(tables.USAGE, select, natural, sorts, _CLIENT_TEXTS, scope)


def cost_series(scope: Scope, clients: ClientFilter, prices: Prices, step: str) -> TableQuery:
    return _series(tables.USAGE, _of_clients(scope, clients), step, _costs(prices))


def throttling(scope: Scope, clients: ClientFilter) -> Selection:
    """Return throttles per rule and client, the longest throttle time first."""
    select = (
        f'SELECT {CLUSTER}, kind, rule, principal AS "user", client_id, {_HELD}, '
        f"{_at('min')} AS first_at, {_at('max')} AS last_at "
        f"FROM t WHERE {_of_clients(scope, clients)} GROUP BY 1, 2, 3, 4, 5"
    )
    figures = ("throttles", "throttle_ms", "longest_ms", "first_at", "last_at")
    sorts = columns("kind", "rule", "user", "client_id", *figures)
    natural = f'throttle_ms DESC, kind, rule, "user", client_id, {CLUSTER}'
    return Selection(tables.THROTTLING, select, natural, sorts, ("kind", "rule", *_CLIENT_TEXTS), scope)


def throttling_series(scope: Scope, clients: ClientFilter, step: str) -> TableQuery:
    return _series(tables.THROTTLING, _of_clients(scope, clients), step, _HELD)


def latency(scope: Scope, api: str | None) -> Selection:
    """Return latency per API and phase, the API with the most requests first."""
    where = Where(scope).equal("api", api)
    select = _quantiles({"api": "api", "phase": "phase"}, where)
    sorts = columns("api", "phase", *_TOOK)
    natural = "max(timed) OVER (PARTITION BY api) DESC, api, phase"
    return Selection(tables.LATENCY, select, natural, sorts, ("api", "phase"), scope)


def latency_series(scope: Scope, api: str | None, phase: str, step: str) -> TableQuery:
    where = Where(scope).equal("api", api).equal("phase", phase)
    sql = f"{_quantiles({'at': _step(step)}, where)} ORDER BY at"
    return TableQuery(tables.LATENCY, sql, scope)


def latency_by_software(scope: Scope, api: str | None) -> Selection:
    """Return the time of whole requests per client software, version and API, the most requests first.
    Clusters are added up.
    """
    where = Where(scope).equal("api", api)
    keys = dict.fromkeys(("software_name", "software_version", "attribution", "api"))
    names = ", ".join(keys)
    same = " AND ".join(f"took.{name} = seen.{name}" for name in keys)
    select = (
        f"SELECT took.*, seen.clients, seen.days FROM ({_quantiles({n: n for n in keys}, where)}) AS took "
        f"JOIN (SELECT {names}, max(clients) AS clients, count(DISTINCT date) AS days FROM t WHERE {where} "
        f"GROUP BY {names}) AS seen ON {same}"
    )
    sorts = columns("software_name", "software_version", "api", *_TOOK, "clients", "days")
    natural = "timed DESC, software_name, software_version, attribution, api"
    texts = ("software_name", "software_version", "api")
    return Selection(tables.LATENCY_BY_SOFTWARE, select, natural, sorts, texts, scope)


def latency_by_software_series(scope: Scope, api: str | None) -> TableQuery:
    """Return a row per day and version of client software, for the MAX_VERSIONS versions with the most
    requests, oldest day first.
    """
    where = Where(scope).equal("api", api).equal("attribution", "one")
    versions = {"software_name": "software_name", "software_version": "software_version"}
    sql = (
        f"SELECT at, software_name, software_version, {', '.join(_TOOK)} FROM ("
        "SELECT *, dense_rank() OVER (ORDER BY asked DESC, software_name, software_version) AS place FROM ("
        "SELECT *, sum(timed) OVER (PARTITION BY software_name, software_version) AS asked FROM ("
        f"{_quantiles({'at': _DAY_US, **versions}, where)}))) "
        f"WHERE place <= {MAX_VERSIONS} ORDER BY at, place"
    )
    return TableQuery(tables.LATENCY_BY_SOFTWARE, sql, scope)


def utilisation(scope: Scope) -> Selection:
    """Return utilisation per rule, key and the clients that share the limit, highest first."""
    select = (
        f"SELECT {CLUSTER}, key, rule, sharer, max(utilisation) AS peak, avg(utilisation) AS mean, "
        f"count(*) AS minutes, sum(CASE WHEN utilisation >= {NEARLY} THEN 1 ELSE 0 END) AS minutes_nearly, "
        "sum(CASE WHEN utilisation >= 1 THEN 1 ELSE 0 END) AS minutes_at_limit, "
        'last_value("limit" ORDER BY minute) AS bound '
        f"FROM t WHERE {Where(scope)} GROUP BY 1, 2, 3, 4"
    )
    figures = ("peak", "mean", "minutes", "minutes_nearly", "minutes_at_limit", "bound")
    sorts = columns("key", "rule", "sharer", *figures)
    natural = f"peak DESC, key, rule, sharer, {CLUSTER}"
    return Selection(tables.UTILISATION, select, natural, sorts, ("key", "rule", "sharer"), scope)


def storms(scope: Scope, address: str | None) -> Selection:
    """Return connection storms per minute and address, newest first."""
    select = (
        f"SELECT {_US} AS at, {CLUSTER}, node, listener, address, attempts, opened, refused, throttled "
        f"FROM t WHERE {Where(scope).equal('address', address)}"
    )
    figures = ("attempts", "opened", "refused", "throttled")
    sorts = columns("at", "node", "listener", "address", *figures)
    natural = f"at DESC, attempts DESC, address, listener, node, {CLUSTER}"
    return Selection(tables.STORMS, select, natural, sorts, ("listener", "address"), scope)


def shared_client_ids(scope: Scope) -> Selection:
    select = (
        f"SELECT date AS day, {CLUSTER}, client_id, principals, addresses, connections, "
        f"is_shared_by_principals FROM t WHERE {Where(scope)}"
    )
    sorts = columns("day", "client_id", "connections")
    natural = f"day DESC, is_shared_by_principals DESC, client_id, {CLUSTER}"
    texts = ("client_id", "array_to_string(principals, ' ')", "array_to_string(addresses, ' ')")
    return Selection(tables.SHARED_CLIENT_IDS, select, natural, sorts, texts, scope)


def offenders(scope: Scope, by: str | None) -> Selection:
    select = (
        f'SELECT date AS day, {CLUSTER}, by, rank, principal AS "user", client_id, total, share '
        f"FROM t WHERE {Where(scope).equal('by', by)}"
    )
    sorts = columns("day", "by", "rank", "user", "client_id", "total", "share")
    natural = f"day DESC, by, rank, {CLUSTER}"
    return Selection(tables.OFFENDERS, select, natural, sorts, ("by", *_CLIENT_TEXTS), scope)


def clusters(scope: Scope) -> Selection:
    """Return the clusters of the whole warehouse, with the first and the last day of each."""
    select = f"SELECT {CLUSTER}, min(date) AS first_day, max(date) AS last_day FROM t GROUP BY 1"
    sorts = columns("cluster", "first_day", "last_day")
    return Selection(tables.OFFENDERS, select, f"{CLUSTER} NULLS LAST", sorts, (CLUSTER,), scope)


def throttle_compliance(scope: Scope, clients: ClientFilter) -> Selection:
    """Return throttle compliance per day, client and client software, the most early sends first."""
    select = (
        f'SELECT date AS day, {CLUSTER}, principal AS "user", client_id, {_COMPLIED}, early_share, obeys '
        f"FROM t WHERE {_of_clients(scope, clients)}"
    )
    figures = ("connections", "throttles", "throttle_ms", "waited", "sent_early", "early_share", "obeys")
    sorts = columns("day", "user", "client_id", "software_name", "software_version", *figures)
    return Selection(
        tables.THROTTLE_COMPLIANCE,
        select,
        f'sent_early DESC, throttles DESC, day DESC, "user", client_id, {_SOFTWARE}, {CLUSTER}',
        sorts,
        ("software_name", "software_version", *_CLIENT_TEXTS),
        scope,
    )


def throttle_compliance_summary(scope: Scope, clients: ClientFilter) -> Selection:
    """Return throttle compliance per client and client software over all days, the longest throttle time
    first. The verdict is that of a day, from the sums.
    """
    sums = ", ".join(
        f"sum({name}) AS {name}"
        for name in ("connections", "throttles", "throttle_ms", "waited", "sent_early")
    )
    select = (
        f"SELECT *, CASE WHEN sent_early >= {MIN_THROTTLES} AND early_share >= {MOSTLY} THEN false "
        f"WHEN waited + sent_early >= {MIN_THROTTLES} AND early_share <= {HARDLY} THEN true END AS obeys "
        "FROM ("
        "SELECT *, CASE WHEN waited + sent_early > 0 "
        "THEN CAST(sent_early AS DOUBLE) / (waited + sent_early) END AS early_share FROM ("
        f'SELECT {CLUSTER}, principal AS "user", client_id, {_SOFTWARE}, count(*) AS days, {sums} '
        f"FROM t WHERE {_of_clients(scope, clients)} GROUP BY 1, 2, 3, 4, 5))"
    )
    figures = (
        "days",
        "connections",
        "throttles",
        "throttle_ms",
        "waited",
        "sent_early",
        "early_share",
        "obeys",
    )
    sorts = columns("user", "client_id", "software_name", "software_version", *figures)
    return Selection(
        tables.THROTTLE_COMPLIANCE,
        select,
        f'throttle_ms DESC, sent_early DESC, "user", client_id, {_SOFTWARE}, {CLUSTER}',
        sorts,
        ("software_name", "software_version", *_CLIENT_TEXTS),
        scope,
    )


def throttle_compliance_series(scope: Scope, clients: ClientFilter) -> TableQuery:
    """Return the throttle time of each day by the verdict on the client, in milliseconds."""
    verdicts = {"waiting_ms": "obeys", "early_ms": "NOT obeys", "unknown_ms": "obeys IS NULL"}
    sums = ", ".join(
        f"sum(CASE WHEN {verdict} THEN throttle_ms ELSE 0 END) AS {name}"
        for name, verdict in verdicts.items()
    )
    where = _of_clients(scope, clients)
    sql = f"SELECT {_DAY_US} AS at, {sums} FROM t WHERE {where} GROUP BY 1 ORDER BY 1"
    return TableQuery(tables.THROTTLE_COMPLIANCE, sql, scope)


def client_metrics(scope: Scope, clients: ClientFilter, metric: str | None) -> Selection:
    """Return pushed metrics per metric and client, over all instances and attributes. `mean` is the mean of
    the points.
    """
    where = _of_clients(scope, clients).equal("metric", metric)
    select = (
        f'SELECT metric, shape, principal AS "user", client_id, {_SAID}, '
        f"count(DISTINCT client_instance_id) AS instances, {_at('max')} AS last_at "
        f"FROM t WHERE {where} GROUP BY 1, 2, 3, 4"
    )
    figures = ("points", "least", "most", "mean", "increase", "counted", "total", "instances", "last_at")
    sorts = columns("metric", "shape", "user", "client_id", *figures)
    natural = 'metric, shape, "user", client_id'
    return Selection(tables.CLIENT_METRICS, select, natural, sorts, ("metric", *_CLIENT_TEXTS), scope)


def client_metrics_series(scope: Scope, clients: ClientFilter, metric: str, step: str) -> TableQuery:
    where = _of_clients(scope, clients).equal("metric", metric)
    return _series(tables.CLIENT_METRICS, where, step, _SAID)


def lost_records(scope: Scope) -> Selection:
    """Return the records that the pipeline could not read, per topic and cluster, the most first. `first_at`
    and `last_at` are the times of the records after the gaps.
    """
    select = (
        f"SELECT topic, {CLUSTER}, sum(records) AS records, count(*) AS gaps, "
        f"{_at('min', TIME)} AS first_at, {_at('max', TIME)} AS last_at FROM t WHERE {Where(scope)} GROUP "
        "BY 1, 2"
    )
    sorts = columns("topic", "cluster", "records", "gaps", "first_at", "last_at")
    natural = f"records DESC, topic, {CLUSTER}"
    return Selection(tables.LOST, select, natural, sorts, ("topic", f"coalesce({CLUSTER}, '')"), scope)


def advice(scope: Scope, clients: ClientFilter) -> Selection:
    """Return the recommendations of the newest day, for each entity and key of a cluster."""
    names = (
        f'{CLUSTER}, "user", client_id, key, minutes, censored_minutes, needed, peak, held_limit, '
        "recommended, basis, throttled_requests_share, throttled_time_share, longest_wait_ms, reason"
    )
    newest = f'row_number() OVER (PARTITION BY {CLUSTER}, "user", client_id, key ORDER BY date DESC)'
    select = (
        f"SELECT day, {names} FROM (SELECT date AS day, {names}, {newest} AS place "
        f"FROM t WHERE {_of_entities(scope, clients)}) WHERE place = 1"
    )
    figures = (
        *("minutes", "censored_minutes", "needed", "peak", "held_limit", "recommended"),
        *("throttled_requests_share", "throttled_time_share", "longest_wait_ms"),
    )
    sorts = columns("day", "user", "client_id", "key", *figures)
    return Selection(tables.ADVICE, select, _BY_ENTITY, sorts, _ENTITY_TEXTS, scope)


def advice_history(scope: Scope, clients: ClientFilter, key: str | None) -> Selection:
    """Return what each entity needed on each day, the oldest day first, for each key of a cluster: lists of
    equal length. `growth` is the newest need as a share of the oldest.
    """
    lists = ", ".join(
        f"array_agg({each} ORDER BY date) AS {each}" for each in ("needed", "peak", "recommended")
    )
    select = (
        "SELECT *, CASE WHEN oldest > 0 THEN newest / oldest END AS growth FROM ("
        f'SELECT {CLUSTER}, "user", client_id, key, array_agg(CAST(date AS VARCHAR) ORDER BY date) AS days, '
        f"{lists}, first_value(needed ORDER BY date) AS oldest, last_value(needed ORDER BY date) AS newest, "
        "max(needed) AS highest, last_value(recommended ORDER BY date) AS recommended_now "
        f"FROM t WHERE {_of_entities(scope, clients).equal('key', key)} GROUP BY 1, 2, 3, 4)"
    )
    sorts = columns("user", "client_id", "key", "newest", "highest", "growth", "recommended_now")
    return Selection(tables.ADVICE, select, _BY_ENTITY, sorts, _ENTITY_TEXTS, scope)


_BYTES: Final = "sum(produce_bytes) AS produce_bytes, sum(fetch_bytes) AS fetch_bytes"
_USED: Final = (
    f"{_BYTES}, sum(requests) AS requests, "
    "sum(errors) AS errors, sum(throttle_ms) AS throttle_ms, sum(handler_us) AS handler_us"
)
_HELD: Final = "sum(throttles) AS throttles, sum(throttle_ms) AS throttle_ms, max(longest_ms) AS longest_ms"
_TOOK: Final = ("timed", "p50_us", "p95_us", "p99_us", "max_us")
_QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
_SOFTWARE: Final = "software_name, software_version"
_COMPLIED: Final = f"{_SOFTWARE}, connections, throttles, throttle_ms, waited, sent_early"
_SAID: Final = (
    "sum(points) AS points, min(min) AS least, max(max) AS most, sum(mean * points) / sum(points) AS mean, "
    "sum(increase) AS increase, sum(count) AS counted, sum(sum) AS total"
)
_CLIENT_TEXTS: Final = ('"user"', "coalesce(client_id, '')")
_ENTITY_TEXTS: Final = ("coalesce(\"user\", '')", "coalesce(client_id, '')", "key")
_BY_ENTITY: Final = f'"user" NULLS LAST, client_id, key, {CLUSTER}'
TIME: Final = '"time"'
_US: Final = "CAST(minute AS BIGINT)"
"""Grouping by integers is three times as fast as date_trunc."""

_DAY_US: Final = f"CAST(arrow_cast(date, 'Int32') AS BIGINT) * {STEP_US['day']}"


def _at(aggregate: str, column: str = "minute") -> str:
    return f"CAST({aggregate}({column}) AS BIGINT)"


def _client_id(by: str) -> str:
    return f"CASE WHEN principal = {literal(ANONYMOUS)} THEN client_id END" if by == "tenant" else "client_id"


def _costs(prices: Prices) -> str:
    return ", ".join(
        f"CAST(sum({column}) AS DOUBLE) / {GB} * {price!r} AS {name}"
        for column, price, name in (
            ("produce_bytes", prices.produced, "produced_cost"),
            ("fetch_bytes", prices.fetched, "fetched_cost"),
        )
    )


def _of_clients(scope: Scope, clients: ClientFilter) -> Where:
    return Where(scope).equal("principal", clients.user).equal("client_id", clients.client_id)


def _of_entities(scope: Scope, clients: ClientFilter) -> Where:
    return Where(scope).equal('"user"', clients.user).equal("client_id", clients.client_id)


def _step(step: str) -> str:
    """Return the beginning of a row's step."""
    size = STEP_US[step]
    return f"{_US} / {size} * {size}"


def _quantiles(keys: Mapping[str, str], where: Where) -> str:
    """Return a statement for the durations of `_TOOK` by keys, expressions by their names: exact quantiles of
    the rows' histograms. A row of an earlier version has none, and counts as its own four quantiles.
    """
    names = ", ".join(keys)
    selected = ", ".join(f"{expression} AS {name}" for name, expression in keys.items())
    own = "make_array(timed * 0.5, timed * 0.45, timed * 0.04, timed * 0.01)"
    us = "unnest(coalesce(bucket_us, make_array(p50_us, p95_us, p99_us, max_us))) AS us"
    count = f"unnest(coalesce(arrow_cast(bucket_counts, 'List(Float64)'), {own})) AS requests"
    buckets = f"SELECT {selected}, {us}, {count} FROM t WHERE {where}"
    added = f"SELECT {names}, us, sum(requests) AS requests FROM ({buckets}) GROUP BY {names}, us"
    ranked = (
        f"SELECT *, sum(requests) OVER (PARTITION BY {names} ORDER BY us) AS so_far, "
        f"sum(requests) OVER (PARTITION BY {names}) AS whole FROM ({added})"
    )
    # A sum of real numbers may be a trace below what it is of whole ones.
    quantiles = ", ".join(
        f"min(CASE WHEN so_far >= whole * {share - 1e-9} THEN us END) AS {name}"
        for name, share in _QUANTILES.items()
    )
    return (
        f"SELECT {names}, CAST(round(max(whole)) AS BIGINT) AS timed, {quantiles}, max(us) AS max_us "
        f"FROM ({ranked}) GROUP BY {names}"
    )


def _series(table: str, where: Where, step: str, measures: str) -> TableQuery:
    sql = f"SELECT {_step(step)} AS at, {measures} FROM t WHERE {where} GROUP BY 1 ORDER BY 1"
    return TableQuery(table, sql, where.scope)
