"""The event topics' formats in Spark's types: values and headers. docs/events.md specifies them.

Used by `silver`, the headers also by gold. Unknown fields are ignored; missing ones are null.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pipeline.tables import CLUSTER

REQUESTS: Final = "__weir_requests"
THROTTLES: Final = "__weir_throttles"
CONNECTIONS: Final = "__weir_connections"
QUOTA_CHANGES: Final = "__weir_quota_changes"
TRANSACTIONS: Final = "__weir_transactions"
TELEMETRY: Final = "__weir_client_telemetry"

KNOWN_VERSION: Final = 1
"""The version of the values, `v` in each; for the metrics that clients push, the header `v`."""

KNOWN_VERSIONS: Final = {REQUESTS: (1, 2, 3), QUOTA_CHANGES: (1, 2)}
"""The versions of topics that have more than one."""

LIMIT: Final = "limit"
SHADOW: Final = "shadow"
SNAPSHOT: Final = "snapshot"
QUOTA_EVENTS: Final = (LIMIT, SHADOW, SNAPSHOT)
"""Values of a quota change's `event`; a record without it is a limit, the only kind in version 1."""

BROKEN: Final = "_broken"
"""The column for text that the JSON reader could not parse."""

PHASES: Final = ("queue", "local", "remote", "response_queue", "response_send", "total")

BUCKETS: Final = "buckets"
BUCKET_COUNTS: Final = "counts"
"""Fields of a request with the histograms of its phases, since `FLAT_VERSION`."""

FLAT_VERSION: Final = 3

PHASE_STEP: Final = 10
"""A bucket's number is this times its upper edge in microseconds, plus the place of its phase."""

PAIRS: Final = ArrayType(ArrayType(LongType()))
"""Pairs of an upper edge in microseconds and a count, before `FLAT_VERSION`."""

ENTITY: Final = MapType(StringType(), StringType())
"""By user, client-id or ip; a null value is the default of that type."""


def _event(**fields: object) -> StructType:
    common = {"v": IntegerType(), "time_ms": LongType()}
    return StructType(
        [StructField(name, kind) for name, kind in {**common, **fields, BROKEN: StringType()}.items()]
    )


VALUES: Final = {
    REQUESTS: _event(
        source=StringType(),
        principal=StringType(),
        client_id=StringType(),
        api=StringType(),
        requests=LongType(),
        bytes_in=LongType(),
        bytes_out=LongType(),
        throttle_ms=LongType(),
        errors=MapType(StringType(), LongType()),
        timed=LongType(),
        local_us=LongType(),
        **dict.fromkeys((BUCKETS, BUCKET_COUNTS), ArrayType(LongType())),
        phases=StructType([StructField(name, PAIRS) for name in PHASES]),
    ),
    THROTTLES: _event(
        kind=StringType(),
        entity=ENTITY,
        principal=StringType(),
        client_id=StringType(),
        connection=StringType(),
        listener=StringType(),
        address=StringType(),
        software_name=StringType(),
        software_version=StringType(),
        observed=DoubleType(),
        bound=DoubleType(),
        count=LongType(),
        throttle_ms=LongType(),
        longest_ms=LongType(),
        obeys=BooleanType(),
        waited=LongType(),
        sent_early=LongType(),
    ),
    CONNECTIONS: _event(
        event=StringType(),
        listener=StringType(),
        address=StringType(),
        principal=StringType(),
        client_id=StringType(),
        software_name=StringType(),
        software_version=StringType(),
        reason=StringType(),
        bound=DoubleType(),
        connection=StringType(),
        count=LongType(),
        requests=LongType(),
        bytes_in=LongType(),
        bytes_out=LongType(),
        lived_ms=LongType(),
        delay_ms=LongType(),
    ),
    QUOTA_CHANGES: _event(
        event=StringType(),
        entity=ENTITY,
        key=StringType(),
        old=DoubleType(),
        new=DoubleType(),
        actor=StringType(),
        role=StringType(),
        address=StringType(),
        origin=StringType(),
        door=StringType(),
        version=LongType(),
        shadow=BooleanType(),
        snapshot=StringType(),
        part=LongType(),
        parts=LongType(),
        limits=MapType(StringType(), DoubleType()),
    ),
    TRANSACTIONS: _event(
        event=StringType(),
        reason=StringType(),
        transactional_id=StringType(),
        producer_id=LongType(),
        producer_epoch=LongType(),
        principal=StringType(),
        client_id=StringType(),
        address=StringType(),
        timeout_ms=LongType(),
        started_ms=LongType(),
        open_ms=LongType(),
        partitions=MapType(StringType(), ArrayType(IntegerType())),
        partition_count=LongType(),
    ),
}
"""The value of each topic with JSON values."""

COUNTS: Final = {
    REQUESTS: ("requests",),
    THROTTLES: ("count", "throttle_ms"),
    CONNECTIONS: ("count",),
    QUOTA_CHANGES: ("version",),
    TRANSACTIONS: ("partition_count",),
}
"""Required fields; integers that are not negative."""

SPARE_COUNTS: Final = {
    REQUESTS: ("bytes_in", "bytes_out", "throttle_ms", "timed", "local_us"),
    THROTTLES: ("longest_ms", "waited", "sent_early"),
    QUOTA_CHANGES: ("part", "parts"),
    TRANSACTIONS: ("timeout_ms", "open_ms"),
}
"""Optional counts; older brokers do not write all of them."""

MAX_COUNT: Final = 2**40
"""Maximum of a count, and of a measure: a trillion requests or bytes of one second, or as many milliseconds,
which are 34 years. A minute of one client has 8 million such records before a sum of them is beyond 64 bits.
"""

MAX_BUCKET: Final = PHASE_STEP * 2 * MAX_COUNT + PHASE_STEP - 1
"""Maximum of a bucket's number: an edge of 2^41 us, 25 days. The highest of a broker is half of that."""

MEASURES: Final = {THROTTLES: ("observed", "bound")}
"""Optional fields that must be numbers; their absolute value is at most `MAX_COUNT`."""

NODE: Final = "node"

ORIGIN: Final = (CLUSTER, NODE)
"""Columns that say where a row comes from; null in rows of records without these headers."""


def origin() -> list[Column]:
    """Return the columns of `ORIGIN`, from `headers`."""
    return [cluster_of().alias(CLUSTER), node_of().alias(NODE)]


def cluster_of() -> Column:
    """Return the cluster's id; null without one."""
    return header(CLUSTER)


def node_of() -> Column:
    """Return the id of the broker or gateway; null without one."""
    return header(NODE).try_cast("int")


def header(name: str) -> Column:
    """Return the text of a record's first header of that name; null without one."""
    place = F.array_position("headers.key", name)
    return text_of(F.get("headers.value", (place - 1).cast("int")))


def text_of(value: Column) -> Column:
    """Return bytes as text; invalid UTF-8 becomes U+FFFD. (`decode` would fail the whole batch.)"""
    return F.make_valid_utf8(value.cast("string"))
