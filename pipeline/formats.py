"""What the event topics say, in Spark's types. The formats are the broker's promise: docs/events.md.

Read by `silver`. A field that is not known here is passed over; one that is missing is null.
"""

from typing import Final

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

REQUESTS: Final = "__weir_requests"
THROTTLES: Final = "__weir_throttles"
CONNECTIONS: Final = "__weir_connections"
QUOTA_CHANGES: Final = "__weir_quota_changes"
TELEMETRY: Final = "__weir_client_telemetry"

KNOWN_VERSION: Final = 1
"""Of the values, as `v` in each; of what clients push, as the header `v`."""

KNOWN_VERSIONS: Final = {REQUESTS: (1, 2), QUOTA_CHANGES: (1, 2)}
"""The same, of topics that have more than one."""

LIMIT: Final = "limit"
SHADOW: Final = "shadow"
SNAPSHOT: Final = "snapshot"
QUOTA_EVENTS: Final = (LIMIT, SHADOW, SNAPSHOT)
"""What a quota change's `event` may be; a record without it is a limit, as version 1 had nothing else."""

BROKEN: Final = "_broken"
"""Where the JSON reader leaves what it could not read."""

PHASES: Final = ("queue", "local", "remote", "response_queue", "response_send", "total")

HISTOGRAM: Final = ArrayType(ArrayType(LongType()))
"""Pairs of microseconds and how many took no longer."""

ENTITY: Final = MapType(StringType(), StringType())
"""Of user, client-id or ip; a null value is the default of that type."""


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
        phases=StructType([StructField(name, HISTOGRAM) for name in PHASES]),
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
        door=StringType(),
        version=LongType(),
        shadow=BooleanType(),
        snapshot=StringType(),
        part=LongType(),
        parts=LongType(),
        limits=MapType(StringType(), DoubleType()),
    ),
}
"""The value of each topic whose values are JSON."""

COUNTS: Final = {
    REQUESTS: ("requests",),
    THROTTLES: ("count", "throttle_ms"),
    CONNECTIONS: ("count",),
    QUOTA_CHANGES: ("version",),
}
"""Fields without which an event says nothing; whole numbers that are not negative."""

SPARE_COUNTS: Final = {
    REQUESTS: ("bytes_in", "bytes_out", "throttle_ms", "timed"),
    THROTTLES: ("longest_ms", "waited", "sent_early"),
    QUOTA_CHANGES: ("part", "parts"),
}
"""The same, where they are given: brokers of before do not give them all."""

MOST: Final = 2**53
"""Of a count: a thousand of them can be added up, and each is exact in every language that may read it."""

MEASURES: Final = {THROTTLES: ("observed", "bound")}
"""Fields that must be numbers where they are given: neither NaN nor infinite."""
