"""Turns records into events: valid ones by kind, invalid ones with the reason.

Pure functions of the raw rows, called by `run`. An event's own time decides where it belongs, not its
record's place. Invalid records go unchanged to the quarantine; none are dropped.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from broker.common.principal import ANONYMOUS
from pipeline.formats import (
    BROKEN,
    BUCKET_COUNTS,
    BUCKETS,
    CONNECTIONS,
    COUNTS,
    FLAT_VERSION,
    KNOWN_VERSION,
    KNOWN_VERSIONS,
    LIMIT,
    MAX_BUCKET,
    MAX_COUNT,
    MEASURES,
    ORIGIN,
    QUOTA_CHANGES,
    QUOTA_EVENTS,
    REQUESTS,
    SHADOW,
    SNAPSHOT,
    SPARE_COUNTS,
    THROTTLES,
    TRANSACTIONS,
    VALUES,
    origin,
    text_of,
)
from pipeline.histograms import PAIRS_BEFORE, local_us, of_pairs
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import day_of

CACHED: Final = "cached"
CACHED_IN_VERSION_1: Final = "by_heart"
"""The source of requests that were answered from a cache."""

CLIENT: Final = "client"
"""The source of one client's requests; the others have no client."""

UNNAMED: Final = {"principal": ANONYMOUS, "client_id": ""}
"""What a broker writes of a client without a login, and without a client id."""

ENDED: Final = ("closed", "aborted")
"""Events of a client whose names are `""` if the broker does not know them."""

ORIGIN_IN_VERSION_1: Final = "door"
"""The field `origin` of a quota change."""

PLACE: Final = ("topic", "partition", "offset")

KEYS: Final = (CLUSTER, *PLACE)
"""Clusters have topics of the same names."""

TABLES: Final = {
    REQUESTS: Table("silver/requests", KEYS, time="time", has_changes=True),
    THROTTLES: Table("silver/throttles", KEYS, time="time", has_changes=True),
    CONNECTIONS: Table("silver/connections", KEYS, time="time", has_changes=True),
    QUOTA_CHANGES: Table("silver/quota_changes", KEYS, time="time"),
    TRANSACTIONS: Table("silver/transactions", KEYS, time="time"),
}

_LOCAL_US: Final = "local_us"

_OF_PHASES: Final = (BUCKETS, BUCKET_COUNTS, _LOCAL_US)
"""The fields of a request that versions before `FLAT_VERSION` have as pairs."""

_NO_COLUMNS: Final = (
    *("v", "time_ms", PAIRS_BEFORE, *_OF_PHASES),
    *(ORIGIN_IN_VERSION_1, BROKEN),
)

SNAPSHOTS: Final = Table("silver/quota_snapshots", KEYS, time="time")
"""The parts of snapshots of all quota rules; they are not changes."""

_OF_SNAPSHOTS: Final = ("snapshot", "part", "parts", "limits")
_OF_PARTS: Final = (*_OF_SNAPSHOTS, "entity", "shadow", "version")

QUARANTINE: Final = Table("silver/quarantine", KEYS)

AHEAD_MS: Final = 3_600_000
"""The most that an event's time may exceed its record's; clocks differ."""

LATE_MS: Final = 86_400_000
"""The most that an event's time may precede its record's; later ones would change days that are done."""


def parse_events(raw: DataFrame, topic: str) -> DataFrame:
    """Return the records of one topic as `event`, with the `reason` if it is invalid. Those of requests also
    have `_OF_PHASES` beside their event, alike in all versions.
    """
    options = {"columnNameOfCorruptRecord": BROKEN}
    event = F.from_json(text_of(F.col("value")), VALUES[topic], options)
    events = raw.where(F.col("topic") == topic).select("*", _once(event.alias("event")))
    if topic == REQUESTS:
        events = events.select("*", _once(*_of_phases(F.col("event"))))
    return events.withColumn("reason", _reason(topic))


def _once(*columns: Column) -> Column:
    # Otherwise Spark's optimizer would compute each again wherever it is used.
    return F.inline(F.array(F.struct(*columns)))


def _of_phases(event: Column) -> list[Column]:
    pairs = event[PAIRS_BEFORE]
    before = (*of_pairs(pairs), local_us(pairs))
    return [
        F.when(event["v"] < FLAT_VERSION, old).otherwise(event[name]).alias(name)
        for name, old in zip(_OF_PHASES, before, strict=True)
    ]


def valid_rows(events: DataFrame) -> DataFrame:
    """Return rows of the topic's table, from `parse_events`."""
    fields = events.schema["event"].dataType.fieldNames()
    time = F.timestamp_millis("event.time_ms")
    return events.where(F.col("reason").isNull()).select(
        day_of(time).alias(DATE),
        time.alias("time"),
        *_origin_of(events),
        *(_field(name, fields) for name in fields if name not in _NO_COLUMNS),
        *([BUCKETS, BUCKET_COUNTS, _handler_us()] if PAIRS_BEFORE in fields else []),
        *PLACE,
    )


def _field(name: str, fields: list[str]) -> Column:
    """Return a field of the event with its name and values in the newest version of the format."""
    field = F.col(f"event.`{name}`")
    if name in UNNAMED:
        field = _named(field, UNNAMED[name], fields)
    if name == "source":
        field = F.when(field == CACHED_IN_VERSION_1, CACHED).otherwise(field)
    if name == "origin":
        field = F.coalesce(field, F.col(f"event.`{ORIGIN_IN_VERSION_1}`"))
    return field.alias(name)


def _named(field: Column, unnamed: str, fields: list[str]) -> Column:
    """Return the name of a client, also if the event lacks it; null without a client."""
    if "source" in fields:
        return F.when(F.col("event.source") == CLIENT, F.coalesce(field, F.lit(unnamed))).otherwise(field)
    if "event" in fields:
        return F.when(F.col("event.event").isin(*ENDED), F.coalesce(field, F.lit(""))).otherwise(field)
    return F.coalesce(field, F.lit(unnamed))


def by_table(topic: str, accepted_rows: DataFrame) -> tuple[tuple[Table, DataFrame], ...]:
    """Return the rows of `valid_rows` with their tables."""
    if topic != QUOTA_CHANGES:
        return ((TABLES[topic], accepted_rows),)
    rows = accepted_rows.withColumn("event", F.coalesce("event", F.lit(LIMIT)))
    is_part = F.col("event") == SNAPSHOT
    parts = rows.where(is_part).select(DATE, "time", *ORIGIN, *_OF_PARTS, *PLACE)
    return (TABLES[topic], rows.where(~is_part).drop(*_OF_SNAPSHOTS)), (SNAPSHOTS, parts)


def _handler_us() -> Column:
    """Return the handlers' time in microseconds, scaled from the timed requests to all.

    A half is rounded to the even integer. It is 0 if it is beyond what can be counted.
    """
    event = F.col("event")
    all_us = F.when(event["timed"] > 0, F.col(_LOCAL_US) * event["requests"] / event["timed"])
    # Integers, because their sum does not depend on the order.
    us = F.when(all_us.between(0, MAX_COUNT), F.rint(all_us).cast("long")).otherwise(F.lit(0))
    return us.alias("handler_us")


def quarantine_rows(events: DataFrame) -> DataFrame:
    """Return rows of the quarantine, from `parse_events`."""
    return events.where(F.col("reason").isNotNull()).select(
        day_of("timestamp").alias(DATE),
        *_origin_of(events),
        *PLACE,
        "timestamp",
        "reason",
        "value",
        "headers",
        # Of pushes alone; the table has them from its first version on.
        F.lit(None).cast("bigint").alias("points"),
        F.lit(None).cast("array<string>").alias("metrics"),
    )


def _origin_of(events: DataFrame) -> list[Column]:
    """Return the columns of `ORIGIN`; bronze has them already."""
    return [F.col(name) for name in ORIGIN] if set(ORIGIN) <= set(events.columns) else origin()


def unknown_topics(raw: DataFrame) -> DataFrame:
    """Return records of unknown topics, for the quarantine."""
    return quarantine_rows(raw.withColumn("reason", F.lit("unknown topic")))


def _reason(topic: str) -> Column:
    """Return the first reason why an event is invalid, null if it is valid."""
    event = F.col("event")
    taken_ms = F.unix_millis("timestamp")
    versions = KNOWN_VERSIONS.get(topic, (KNOWN_VERSION,))
    rules: list[tuple[Column, str]] = [
        (F.col("value").isNull(), "no value"),
        (event.isNull() | event[BROKEN].isNotNull(), "not JSON of this format"),
        (event["v"].isNull() | ~event["v"].isin(*versions), "unknown version"),
        (event["time_ms"].isNull(), "no time"),
        (event["time_ms"] > taken_ms + AHEAD_MS, "from the future"),
        (event["time_ms"] < taken_ms - LATE_MS, "too late"),
    ]
    rules += [
        (event[name].isNull() | _is_beyond(event[name]), f"{name} is not a count") for name in COUNTS[topic]
    ]
    rules += [(_is_beyond(event[name]), f"{name} is not a count") for name in SPARE_COUNTS.get(topic, ())]
    rules += [(~_is_finite(event[name]), f"{name} is not a number") for name in MEASURES.get(topic, ())]
    rules += [(F.abs(event[name]) > MAX_COUNT, f"{name} is too large") for name in MEASURES.get(topic, ())]
    if topic == REQUESTS:
        rules += _request_rules(event)
    if topic == QUOTA_CHANGES:
        rules += _quota_rules(event)
    return reduce(
        lambda otherwise, rule: F.when(rule[0], F.lit(rule[1])).otherwise(otherwise),
        reversed(rules),
        F.lit(None).cast("string"),
    )


def _request_rules(event: Column) -> list[tuple[Column, str]]:
    errors = F.map_values(event["errors"])
    buckets, counts = F.col(BUCKETS), F.col(BUCKET_COUNTS)
    return [
        (_are_beyond(errors, MAX_COUNT), "errors are not counts"),
        (~F.size(buckets).eqNullSafe(F.size(counts)), "not a count for each bucket"),
        (_has_null(buckets) | _are_beyond(buckets, MAX_BUCKET), "buckets are not those of phases"),
        (_has_null(counts) | _are_beyond(counts, MAX_COUNT), "phases are not counts"),
    ]


def _quota_rules(event: Column) -> list[tuple[Column, str]]:
    kind = F.coalesce(event["event"], F.lit(LIMIT))
    is_incomplete = event["snapshot"].isNull() | event["part"].isNull() | event["parts"].isNull()
    has_no_rule = (event["part"] > 0) & (event["entity"].isNull() | event["limits"].isNull())
    limits = F.map_values(event["limits"])
    is_no_part = is_incomplete | (event["part"] >= event["parts"]) | has_no_rule
    return [
        (~kind.isin(*QUOTA_EVENTS), "unknown event"),
        ((kind == SHADOW) & event["shadow"].isNull(), "shadow is missing"),
        ((kind == SNAPSHOT) & is_no_part, "not a part of a snapshot"),
        (
            F.exists(limits, lambda limit: limit.isNull() | ~_is_finite(limit)),
            "limits are not numbers",
        ),
    ]


def _is_beyond(count: Column) -> Column:
    return (count < 0) | (count > MAX_COUNT)


def _are_beyond(numbers: Column, most: int) -> Column:
    return (F.array_min(numbers) < 0) | (F.array_max(numbers) > most)


def _has_null(numbers: Column) -> Column:
    # Unlike `exists`, Spark compiles this search: it is null if it finds none, and a null.
    return numbers.isNotNull() & F.array_contains(numbers, F.lit(-1)).isNull()


def _is_finite(value: Column) -> Column:
    return value.isNull() | ~(F.isnan(value) | (F.abs(value) == F.lit(float("inf"))))
