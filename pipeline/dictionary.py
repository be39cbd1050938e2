"""Every column of every table, with its type, unit and meaning. Without Spark.

`weir pipeline tables --schema` prints it, and `python -m pipeline.dictionary` generates docs/tables.md from
it. Tests compare it with that page and with the tables that the pipeline writes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).parents[1] / "docs" / "tables.md"


@dataclass(frozen=True, slots=True)
class Column:
    """`type` is Spark's, `unit` is empty for a column without one."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Documented:
    """A table; `row` says what one of its rows is, `keys` identify a row."""

    path: str
    row: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        return self.path.replace("/", ".")


_Facts = tuple[str, str, str]

COMMON: Final[Mapping[str, _Facts]] = {
    "date": ("date", "UTC day", "The day of the event; the table's partition"),
    "minute": ("timestamp", "UTC", "The start of the minute"),
    "time": ("timestamp", "UTC", "The end of the second that the event covers"),
    "cluster": (
        "string",
        "",
        "The id of the cluster that the record comes from; null for records of earlier versions",
    ),
    "node": ("int", "", "The `node.id` of the broker or gateway"),
    "topic": ("string", "", "The event topic of the record"),
    "partition": ("int", "", "The record's partition"),
    "offset": ("bigint", "", "The record's offset"),
    "timestamp": ("timestamp", "UTC", "The record's timestamp"),
    "value": ("binary", "", "The record's value, unchanged"),
    "headers": ("array<struct<key:string,value:binary>>", "", "The record's headers, in order"),
    "principal": ("string", "", "The client's user; `ANONYMOUS` without a login"),
    "client_id": ("string", "", "The client's `client.id`; empty if it has none"),
    "connection": ("string", "", "The id of the connection"),
    "listener": ("string", "", "The name of the listener"),
    "address": ("string", "", "The client's address"),
    "software_name": ("string", "", "The client library, as it names itself in ApiVersions"),
    "software_version": ("string", "", "Its version"),
    "api": ("string", "", "The API, as in Kafka's metrics: `Produce`, `FetchConsumer`, `Metadata` and so on"),
    "phase": (
        "string",
        "",
        "`queue`, `local`, `remote`, `response_queue`, `response_send`, or `total` for the whole request",
    ),
    "timed": ("bigint", "requests", "The requests whose times were measured"),
    "p50_us": (
        "bigint",
        "microseconds",
        "The median: the upper edge of its bucket, less than an eighth too large",
    ),
    "p95_us": ("bigint", "microseconds", "The 95th percentile, likewise"),
    "p99_us": ("bigint", "microseconds", "The 99th percentile, likewise"),
    "max_us": ("bigint", "microseconds", "The upper edge of the highest bucket"),
    "bucket_us": (
        "array<bigint>",
        "microseconds",
        "The upper edges of the buckets with requests, ascending; an edge is less than an eighth too large",
    ),
    "bucket_counts": ("array<bigint>", "requests", "The requests in each of these buckets"),
    "requests": ("bigint", "requests", "The number of requests"),
    "bytes_in": ("bigint", "bytes", "Bytes of requests on the wire"),
    "bytes_out": ("bigint", "bytes", "Bytes of responses on the wire"),
    "errors": ("bigint", "errors", "The number of error codes in responses"),
    "throttle_ms": (
        "bigint",
        "milliseconds",
        "The sum of throttle times; over several connections it can exceed the period",
    ),
    "throttles": ("bigint", "throttles", "The number of throttles"),
    "longest_ms": ("bigint", "milliseconds", "The longest throttle"),
    "handler_us": (
        "bigint",
        "microseconds",
        "The time of the broker's thread in handlers, extrapolated from the timed requests",
    ),
    "produce_bytes": ("bigint", "bytes", "Bytes of Produce requests on the wire"),
    "fetch_bytes": ("bigint", "bytes", "Bytes of Fetch responses on the wire"),
    "rule": (
        "string",
        "JSON",
        "The quota rule as an object of `user` and `client-id`; null is the default of a type",
    ),
    "key": ("string", "", "The quota's key, such as `producer_byte_rate`"),
    "reason": ("string", "", "The reason in words"),
    "waited": ("bigint", "throttles", "Throttles during which the client sent nothing"),
    "sent_early": ("bigint", "throttles", "Throttles during which the client sent a request"),
    "client_instance_id": ("string", "", "The UUID of the client instance (KIP-714)"),
}
"""Columns that have the same meaning in several tables."""

_FIELD: Final = "[events.md](events.md)"


def _table(path: str, row: str, keys: str, order: str, own: Mapping[str, _Facts] | None = None) -> Documented:
    """Describe a table: `order` names its columns, `own` has those that are not common or differ."""
    known = {**COMMON, **(own or {})}
    columns = tuple(Column(name, *known[name]) for name in order.split())
    return Documented(path, row, tuple(keys.split()), columns)


_PLACE: Final = "topic partition offset"
_RECORD: Final = f"cluster {_PLACE}"
_EVENT: Final = "date time cluster node"
_SOFTWARE: Final = "software_name software_version"
_QUANTILES: Final = "timed p50_us p95_us p99_us max_us"
_BUCKETS: Final = "bucket_us bucket_counts"

_OTEL_COLUMNS: Final[Mapping[str, _Facts]] = {
    "date": ("date", "UTC day", "The day of `TimeUnix`; the table's partition"),
    "ResourceAttributes": ("map<string,string>", "", "The attributes of the OpenTelemetry resource"),
    "ResourceSchemaUrl": ("string", "", "The resource's schema URL"),
    "ScopeName": ("string", "", "The name of the instrumentation scope"),
    "ScopeVersion": ("string", "", "The scope's version"),
    "ScopeAttributes": ("map<string,string>", "", "The scope's attributes"),
    "ScopeDroppedAttrCount": ("bigint", "attributes", "The scope's dropped attributes"),
    "ScopeSchemaUrl": ("string", "", "The scope's schema URL"),
    "ServiceName": ("string", "", "The resource's `service.name`"),
    "MetricName": ("string", "", "The metric's name"),
    "MetricDescription": ("string", "", "The metric's description"),
    "MetricUnit": ("string", "", "The metric's unit, as the client names it"),
    "Attributes": ("map<string,string>", "", "The point's attributes"),
    "StartTimeUnix": ("timestamp", "UTC", "The start of the point's interval; null if unknown"),
    "TimeUnix": ("timestamp", "UTC", "The time of the point, the end of its interval"),
    "Value": ("double", "`MetricUnit`", "The point's value"),
    "Flags": ("bigint", "bit mask", "The point's OpenTelemetry flags"),
    "AggregationTemporality": ("int", "", "1: the values are deltas; 2: they are cumulative"),
    "IsMonotonic": ("boolean", "", "Whether the sum only rises"),
    "Count": ("bigint", "values", "The number of values in the histogram"),
    "Sum": ("double", "`MetricUnit`", "Their sum; null if unknown"),
    "BucketCounts": ("array<bigint>", "values", "The number of values in each bucket"),
    "ExplicitBounds": ("array<double>", "`MetricUnit`", "The upper bounds of the buckets but the last"),
    "Min": ("double", "`MetricUnit`", "The least value; null if unknown"),
    "Max": ("double", "`MetricUnit`", "The greatest value; null if unknown"),
    "subscription_id": ("int", "", "The id of the subscription of the push"),
    "terminating": ("boolean", "", "Whether this was the instance's last push"),
    "arrived": ("timestamp", "UTC", "When the broker received the push"),
    "point": ("int", "", "The position of the point in its push, from 0"),
}
_OTEL_BEFORE: Final = (
    "date ResourceAttributes ResourceSchemaUrl ScopeName ScopeVersion ScopeAttributes ScopeDroppedAttrCount "
    "ScopeSchemaUrl ServiceName MetricName MetricDescription MetricUnit Attributes StartTimeUnix TimeUnix"
)
_OTEL_AFTER: Final = (
    "cluster node client_instance_id client_id principal address software_name software_version "
    f"subscription_id terminating arrived {_PLACE} point"
)


def _otel(kind: str, measures: str) -> Documented:
    return _table(
        f"silver/otel_metrics_{kind}",
        f"a data point of a {kind} that a client pushed (KIP-714)",
        f"{_RECORD} point",
        f"{_OTEL_BEFORE} {measures} {_OTEL_AFTER}",
        _OTEL_COLUMNS,
    )


TABLES: Final = (
    _table(
        "bronze/events",
        "an unchanged record of an event topic",
        _RECORD,
        f"{_PLACE} timestamp value headers cluster node date",
        {"date": ("date", "UTC day", "The day of `timestamp`; partitions the table together with `topic`")},
    ),
    _table(
        "bronze/positions",
        "the progress of the pipeline in a partition",
        "cluster topic partition",
        "cluster topic partition next",
        {"next": ("bigint", "", "The offset of the next record to read")},
    ),
    _table(
        "silver/requests",
        "one client's requests of one API within a second, from one record of `__weir_requests`",
        _RECORD,
        f"{_EVENT} source principal client_id api requests bytes_in bytes_out throttle_ms errors timed "
        f"buckets counts handler_us {_PLACE}",
        {
            "source": (
                "string",
                "",
                "`client`; `others`: clients beyond the broker's rows, without a name; `cached`: answered "
                "from a cache",
            ),
            "bytes_in": ("bigint", "bytes", "Bytes of the requests on the wire"),
            "bytes_out": ("bigint", "bytes", "Bytes of the responses on the wire"),
            "errors": ("map<string,bigint>", "responses", "The number of responses with each error code"),
            "buckets": (
                "array<bigint>",
                "",
                "The buckets of the phases' histograms: ten times the upper edge in microseconds, plus 0 for "
                "`queue`, 1 `local`, 2 `remote`, 3 `response_queue`, 4 `response_send`, 5 `total`. Rows of "
                "earlier versions have maps in `histograms` or pairs in `phases` instead",
            ),
            "counts": ("array<bigint>", "requests", "The number of requests in each of `buckets`"),
        },
    ),
    _table(
        "silver/throttles",
        "the throttles of one connection by one rule within a second, from one record of `__weir_throttles`",
        _RECORD,
        f"{_EVENT} kind entity principal client_id connection listener address {_SOFTWARE} observed "
        f"bound count throttle_ms longest_ms obeys waited sent_early {_PLACE}",
        {
            "kind": ("string", "", f"The kind of quota: `produce`, `fetch`, `request` and so on ({_FIELD})"),
            "entity": (
                "map<string,string>",
                "",
                "The rule: `user` and `client-id`; null is the default of a type",
            ),
            "observed": ("double", "of the kind", "What the quota measured at the last throttle"),
            "bound": ("double", "of the kind", "The limit at the last throttle"),
            "count": ("bigint", "throttles", "The number of throttles"),
            "obeys": ("boolean", "", "The broker's verdict, whether the client waits; null if unknown"),
        },
    ),
    _table(
        "silver/connections",
        "connections that were opened, closed, refused or delayed, from one record of `__weir_connections`",
        _RECORD,
        f"{_EVENT} event listener address principal client_id {_SOFTWARE} reason bound connection "
        f"count requests bytes_in bytes_out lived_ms delay_ms {_PLACE}",
        {
            "event": ("string", "", "`opened`, `closed`, `refused` or `throttled`"),
            "principal": ("string", "", "The user of a closed connection; empty if unknown"),
            "reason": ("string", "", "Why it was closed; the key of the limit that refused it"),
            "bound": ("double", "of the limit", "The limit; null if there is none"),
            "count": ("bigint", "connections", "The connections that the record covers"),
            "connection": ("string", "", "The id of the connection, if it is one"),
            "bytes_in": ("bigint", "bytes", "Bytes that the closed connections sent"),
            "bytes_out": ("bigint", "bytes", "Bytes that they received"),
            "lived_ms": ("bigint", "milliseconds", "The sum of their lifetimes"),
            "delay_ms": ("bigint", "milliseconds", "The delay of throttled connections"),
        },
    ),
    _table(
        "silver/transactions",
        "a transaction that the broker aborted while it was open, from one record of `__weir_transactions`",
        _RECORD,
        f"{_EVENT} event reason transactional_id producer_id producer_epoch principal client_id address "
        f"timeout_ms started_ms open_ms partitions partition_count {_PLACE}",
        {
            "event": ("string", "", "`aborted`"),
            "reason": ("string", "", "`timed_out` or `aborted_by_operator`"),
            "transactional_id": ("string", "", "The transactional id"),
            "producer_id": ("bigint", "", "The id of its producer"),
            "producer_epoch": ("bigint", "", "The producer's epoch before the abort"),
            "principal": ("string", "", "The user of the last InitProducerId; empty if unknown"),
            "client_id": ("string", "", "Its client id; empty if unknown"),
            "address": ("string", "", "Its address; empty if unknown"),
            "timeout_ms": ("bigint", "milliseconds", "The timeout of the transaction"),
            "started_ms": ("bigint", "milliseconds since 1970", "When it began"),
            "open_ms": ("bigint", "milliseconds", "How long it was open"),
            "partitions": (
                "map<string,array<int>>",
                "",
                "The partitions that it wrote to, by topic; the first 1,000",
            ),
            "partition_count": ("bigint", "partitions", "Their number"),
        },
    ),
    _table(
        "silver/quota_changes",
        "a limit that was set or removed, or a rule that entered or left shadow mode, from one record of "
        "`__weir_quota_changes`",
        _RECORD,
        f"{_EVENT} event entity key old new actor role address origin version shadow {_PLACE}",
        {
            "event": ("string", "", "`limit` or `shadow`"),
            "entity": (
                "map<string,string>",
                "",
                "The rule: `user`, `client-id` or `ip`; null is the default of a type",
            ),
            "old": ("double", "of the key", "The limit before; null for none"),
            "new": ("double", "of the key", "The limit after; null for none"),
            "actor": ("string", "", "Who made the change"),
            "role": ("string", "", "The actor's role"),
            "address": ("string", "", "The actor's address"),
            "origin": ("string", "", "`wire`, `rest`, `page`, `command-line`, `broker` or `upstream`"),
            "version": ("bigint", "", "The version of the broker's metadata after the change"),
            "shadow": ("boolean", "", "Whether the limits are only measured from now on; null for a limit"),
        },
    ),
    _table(
        "silver/quota_snapshots",
        "one rule of a snapshot of all quota rules, or its head without a rule",
        _RECORD,
        f"{_EVENT} snapshot part parts limits entity shadow version {_PLACE}",
        {
            "snapshot": ("string", "", "The snapshot's name"),
            "part": ("bigint", "", "The number of the part, from 0; 0 is the head"),
            "parts": (
                "bigint",
                "parts",
                "The number of parts; with fewer the snapshot is incomplete and not used",
            ),
            "limits": ("map<string,double>", "of the key", "The limits by key"),
            "entity": (
                "map<string,string>",
                "",
                "The rule: `user`, `client-id` or `ip`; null is the default of a type",
            ),
            "shadow": ("boolean", "", "Whether the limits are only measured"),
            "version": ("bigint", "", "The version of the broker's metadata in the snapshot"),
        },
    ),
    _otel("gauge", "Value Flags"),
    _otel("sum", "Value Flags AggregationTemporality IsMonotonic"),
    _otel("histogram", "Count Sum BucketCounts ExplicitBounds Flags Min Max AggregationTemporality"),
    _table(
        "silver/quarantine",
        "an unchanged record that could not be parsed, or the invalid points of a push",
        _RECORD,
        f"date cluster node {_PLACE} timestamp reason value headers points metrics",
        {
            "date": ("date", "UTC day", "The day of `timestamp`; the table's partition"),
            "value": ("binary", "", "The record's value, unchanged; null for a push with valid points"),
            "points": ("bigint", "points", "The invalid points of a push; null for other records"),
            "metrics": ("array<string>", "", "The names of the first twenty metrics with invalid points"),
        },
    ),
    _table(
        "gold/usage_per_minute",
        "a client's bytes, requests and cost to the broker in a minute at one broker",
        "minute cluster node principal client_id",
        "date minute cluster node principal client_id produce_bytes fetch_bytes requests errors throttle_ms "
        "handler_us",
    ),
    _table(
        "gold/usage_seconds",
        "the same of the seconds in which the client was active; kept as long as silver",
        "minute cluster node principal client_id",
        "date minute cluster node principal client_id seconds",
        {
            "seconds": (
                "array<struct<second:tinyint,produce_bytes:bigint,produce_requests:bigint,"
                "produce_throttle_ms:bigint,fetch_bytes:bigint,fetch_requests:bigint,"
                "fetch_throttle_ms:bigint,handler_us:bigint,requests:bigint,throttle_ms:bigint>>",
                "",
                "Each `second`, 0 to 59 in order, with its sums; those without a prefix are of all APIs",
            ),
        },
    ),
    _table(
        "gold/phase_quantiles_per_minute",
        "the duration of one phase of an API's requests in a minute at one broker",
        "minute cluster node api phase",
        f"date minute cluster node api phase {_QUANTILES} {_BUCKETS}",
    ),
    _table(
        "gold/client_requests_per_day",
        "a client's requests of one API on a day, with the durations of whole requests",
        "date cluster principal client_id api",
        "date cluster principal client_id api requests bytes_in bytes_out errors throttle_ms handler_us "
        f"timed {_BUCKETS}",
    ),
    _table(
        "gold/client_connections_per_day",
        "a client's closed connections from one address by client software and version on a day",
        f"date cluster principal client_id address {_SOFTWARE}",
        f"date cluster principal client_id address {_SOFTWARE} connections",
        {
            "software_name": ("string", "", "The client library; empty if unknown"),
            "software_version": ("string", "", "Its version; empty if unknown"),
            "connections": ("bigint", "connections", "The number of closed connections"),
        },
    ),
    _table(
        "gold/throttled_connections_per_day",
        "the throttles of one connection on a day",
        f"date cluster principal client_id {_SOFTWARE} node connection",
        f"date cluster principal client_id {_SOFTWARE} node connection throttles throttle_ms waited "
        "sent_early",
        {
            "software_name": ("string", "", "The client library; empty if unknown"),
            "software_version": ("string", "", "Its version; empty if unknown"),
        },
    ),
    _table(
        "gold/pushing_clients_per_day",
        "a client instance that pushed metrics on a day",
        f"date cluster principal client_id client_instance_id {_SOFTWARE}",
        f"date cluster principal client_id client_instance_id {_SOFTWARE} points",
        {
            "principal": ("string", "", "The client's user; empty if unknown"),
            "software_name": ("string", "", "The client library; empty if unknown"),
            "software_version": ("string", "", "Its version; empty if unknown"),
            "points": ("bigint", "points", "The data points that it pushed"),
        },
    ),
    _table(
        "gold/latency_by_software_per_day",
        "the duration of whole requests of one API by client software and version on a day",
        f"date cluster {_SOFTWARE} attribution api",
        f"date cluster {_SOFTWARE} attribution api {_QUANTILES} clients {_BUCKETS}",
        {
            "software_name": ("string", "", "The client library; empty if unknown or if there are several"),
            "software_version": ("string", "", "Its version; empty if unknown or if there are several"),
            "attribution": (
                "string",
                "",
                "`one`: the clients used this version. `several`: each used several versions on that day. "
                "`unknown`: within a week, no closed connection, throttle or push named their software",
            ),
            "clients": ("bigint", "clients", "Clients, a principal with a client id, that had such requests"),
        },
    ),
    _table(
        "gold/throttling_per_minute",
        "the throttles of a client by one rule in a minute at one broker",
        "minute cluster node kind rule principal client_id",
        "date minute cluster node kind rule principal client_id throttles throttle_ms longest_ms "
        "observed bound connections",
        {
            "kind": ("string", "", f"The kind of quota: `produce`, `fetch`, `request` and so on ({_FIELD})"),
            "observed": ("double", "of the kind", "The highest value that the quota measured"),
            "bound": ("double", "of the kind", "The limit at the last throttle"),
            "connections": ("bigint", "connections", "The number of throttled connections"),
        },
    ),
    _table(
        "gold/client_metrics_per_minute",
        "a series in a minute: an instance's metric with its attributes",
        "minute cluster client_instance_id client_id principal resource scope metric shape attributes",
        "date minute cluster client_instance_id client_id principal resource scope metric shape attributes "
        "unit points min max last mean increase count sum bounds bucket_counts",
        {
            "principal": ("string", "", "The client's user; empty if unknown"),
            "resource": ("string", "JSON", "The attributes of the OpenTelemetry resource"),
            "scope": ("string", "", "The name of the instrumentation scope"),
            "metric": ("string", "", "The metric's name"),
            "shape": ("string", "", "`gauge`, `sum` or `histogram`; columns of other shapes are null"),
            "attributes": ("string", "JSON", "The attributes of the series"),
            "unit": ("string", "", "The metric's unit, as the client names it"),
            "points": ("bigint", "points", "The data points of the minute"),
            "min": ("double", "`unit`", "The least value of a gauge or a histogram"),
            "max": ("double", "`unit`", "The greatest value of a gauge or a histogram"),
            "last": ("double", "`unit`", "The last value of a gauge, the last total of a cumulative sum"),
            "mean": ("double", "`unit`", "The mean of a gauge's points"),
            "increase": ("double", "`unit`", "The increase of a sum"),
            "count": ("bigint", "values", "The number of values that a histogram gained"),
            "sum": ("double", "`unit`", "Their sum"),
            "bounds": ("array<double>", "`unit`", "The bounds that all points of the minute have"),
            "bucket_counts": ("array<bigint>", "values", "The values in each bucket between these bounds"),
        },
    ),
    _table(
        "gold/quota_utilisation_per_minute",
        "the use of one limit by the clients that share it, in a minute at one broker",
        "minute cluster node key rule sharer",
        "date minute cluster node key rule sharer rate limit shadow clients utilisation",
        {
            "sharer": ("string", "JSON", "The names for which a default rule has an allowance of its own"),
            "rate": ("double", "of the key", "The mean rate: bytes per second, or percent of a thread"),
            "limit": ("double", "of the key", "The limit in force"),
            "shadow": ("boolean", "", "Whether the limit was measured and not enforced"),
            "clients": ("bigint", "clients", "The clients that shared the limit"),
            "utilisation": ("double", "share", "`rate` divided by `limit`; 1.0 is at the limit"),
        },
    ),
    _table(
        "gold/top_offenders_per_day",
        "one of the ten clients of a cluster with the highest total of a measure on a day",
        "date cluster by rank",
        "date cluster principal client_id by total rank share",
        {
            "by": (
                "string",
                "",
                "The measure: `produce_bytes`, `fetch_bytes`, `requests`, `throttle_ms` or `errors`",
            ),
            "total": ("bigint", "of the measure", "The client's total"),
            "rank": ("int", "", "From 1, the highest total"),
            "share": ("double", "share", "The client's share of the cluster's total"),
        },
    ),
    _table(
        "gold/connection_storms",
        "an address that made 60 or more connection attempts in a minute at one listener of a broker",
        "minute cluster node listener address",
        "date minute cluster node listener address opened refused throttled attempts",
        {
            "opened": ("bigint", "connections", "Accepted connections"),
            "refused": ("bigint", "connections", "Refused connections"),
            "throttled": ("bigint", "connections", "Accepted or refused after a delay"),
            "attempts": ("bigint", "connections", "`opened` plus `refused`"),
        },
    ),
    _table(
        "gold/shared_client_ids_per_day",
        "a client id that several principals used on a day, or one principal from several addresses",
        "date cluster client_id",
        "date cluster client_id principals addresses connections is_shared_by_principals",
        {
            "principals": ("array<string>", "", "Who used it"),
            "addresses": ("array<string>", "", "From where"),
            "connections": ("bigint", "connections", "Closed connections with this client id"),
            "is_shared_by_principals": ("boolean", "", "Whether there are several principals"),
        },
    ),
    _table(
        "gold/throttle_compliance_per_day",
        "a throttled client and its software on a day, and whether it waited",
        f"date cluster principal client_id {_SOFTWARE}",
        f"date cluster principal client_id {_SOFTWARE} connections throttles throttle_ms waited "
        "sent_early early_share obeys",
        {
            "connections": ("bigint", "connections", "The number of throttled connections"),
            "early_share": (
                "double",
                "share",
                "`sent_early` as a share of itself and `waited`; null without either",
            ),
            "obeys": (
                "boolean",
                "",
                "Whether the client complies: false from two early sends that are at least half; true with "
                "two observations and at most one early send in eight; else null",
            ),
        },
    ),
    _table(
        "gold/quota_advice",
        "a recommended limit for a user, or for a client id without a login, from one day's use",
        "date cluster user client_id key",
        "date cluster user client_id key minutes censored_minutes censored_share needed peak held_limit "
        "recommended basis throttled_requests_share throttled_time_share longest_wait_ms reason "
        "until",
        {
            "date": ("date", "UTC day", "The day of the use; the table's partition"),
            "user": ("string", "", "The user; null for a client id without a login"),
            "client_id": ("string", "", "The client id; null for a user"),
            "minutes": ("bigint", "minutes", "The active minutes, at least 30"),
            "censored_minutes": (
                "bigint",
                "minutes",
                "The active minutes in which a limit held: they show what it allowed, not what was needed",
            ),
            "censored_share": ("double", "share", "Their share of the active minutes"),
            "needed": (
                "double",
                "of the key",
                "The smallest limit that would have throttled at most 1 % of the requests, each for at most "
                "a second; null if the need is unknown",
            ),
            "peak": ("double", "of the key", "The highest mean of ten seconds: the need is at least that"),
            "held_limit": (
                "double",
                "of the key",
                "The last limit on all of the user's or client id's use that held; null if none did",
            ),
            "recommended": (
                "double",
                "of the key",
                "`needed` plus a quarter, rounded up to two digits; `held_limit` if that throttled as "
                "little; null if the need is unknown",
            ),
            "basis": (
                "string",
                "",
                "What the next three columns are of: `simulated`, the recommended limit; `measured`, the "
                "limits of the day",
            ),
            "throttled_requests_share": (
                "double",
                "share",
                "The throttled share of the requests; null without events of the throttles",
            ),
            "throttled_time_share": (
                "double",
                "share",
                "The share of the active minutes in which a connection waited for throttles; null likewise",
            ),
            "longest_wait_ms": ("bigint", "milliseconds", "The longest throttle; null likewise"),
            "until": ("timestamp", "UTC", "The last minute that is taken into account"),
            "reason": ("string", "", "The recommendation in words, with these numbers"),
        },
    ),
    _table(
        "gold/lost_records",
        "a gap: records of a partition that were deleted before the pipeline read them",
        "cluster topic partition first",
        "date time cluster topic partition first last records",
        {
            "date": ("date", "UTC day", "The day of `time`; the table's partition"),
            "time": ("timestamp", "UTC", "The timestamp of the record after the gap"),
            "first": ("bigint", "", "The offset of the first lost record"),
            "last": ("bigint", "", "The offset of the last lost record"),
            "records": ("bigint", "records", "The number of lost records"),
        },
    ),
)

_HEAD: Final = """\
# The tables of the pipeline

Generated from `pipeline/dictionary.py` by `python -m pipeline.dictionary`; do not edit it by hand.
`weir pipeline tables --schema` prints the same.

[The pipeline](pipeline.md) writes these Delta tables into its warehouse: `bronze` has records as they came,
`silver` events by kind, `gold` the answers to an operator's questions. Types are Spark's. A unit "of the
key" is bytes per second for `producer_byte_rate` and `consumer_byte_rate`, percent of one thread's time for
`request_percentage`, and changes per second for `controller_mutation_rate`; "of the kind" is likewise. Tables
that an earlier version wrote may lack columns until their next write.

`examples/insights.ipynb` reads the tables with DuckDB, Polars and Spark.
"""


def render() -> str:
    """Return docs/tables.md."""
    return _HEAD + "".join(f"\n## {table.name}\n\n{_section(table)}" for table in TABLES)


def _section(table: Documented) -> str:
    keys = ", ".join(f"`{key}`" for key in table.keys)
    rows = (
        f"| `{each.name}` | {each.type.replace('<', '&lt;')} | {each.unit} | {each.meaning} |"
        for each in table.columns
    )
    head = f"A row is {table.row}. {keys} identify it.\n\n| column | type | unit | meaning |\n"
    return head + "| --- | --- | --- | --- |\n" + "".join(f"{row}\n" for row in rows)


def lines() -> Iterator[str]:
    """Yield the dictionary as text for a terminal: a table's name, and its columns below."""
    for table in TABLES:
        yield f"{table.name}: {table.row}"
        for column in table.columns:
            unit = f" [{column.unit}]" if column.unit else ""
            kind = column.type if len(column.type) < 40 else f"{column.type.partition('<')[0]}<...>"
            yield f"  {column.name:<24} {kind:<20} {column.meaning}{unit}"
        yield ""


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
