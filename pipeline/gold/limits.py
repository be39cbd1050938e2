"""The limits in force over time and their utilisation.

The lookup equals the broker's: of the eight entities that could govern a client the most specific existing
one, separately for each key (docs/quotas.md). Clients under one rule share an allowance unless the rule
separates them.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import LIMIT, ORIGIN, SHADOW
from pipeline.gold.throttling import rule_text
from pipeline.tables import DATE, Table
from pipeline.times import MINUTE

UTILISATION: Final = Table("gold/quota_utilisation_per_minute", (MINUTE, *ORIGIN, "key", "rule", "sharer"))

DAY_US: Final = 86_400_000_000

LEVELS: Final = (
    ("name", "name"),
    ("name", "default"),
    ("name", None),
    ("default", "name"),
    ("default", "default"),
    ("default", None),
    (None, "name"),
    (None, "default"),
)
"""A rule's user and client-id, most specific first. (Kafka: DefaultQuotaCallback)"""


@dataclass(frozen=True, slots=True, order=True)
class _Snapshot:
    version: int
    time_us: int
    name: str

    def order(self) -> Column:
        """Return the place before that of the snapshot's rules."""
        version, time_us, place = (F.lit(each).cast("long") for each in (self.version, self.time_us, 0))
        return _order(version, 1, time_us, place)

    def time(self) -> Column:
        return F.timestamp_micros(F.lit(self.time_us).cast("long")).alias("time")


def limits_over_time(
    changes: DataFrame, parts: DataFrame | None = None, day: date | None = None
) -> DataFrame:
    """Return the limits of silver.quota_changes and silver.quota_snapshots of one cluster with their times.

    Rows have `rule`, `key`, `value`, the times `since` (included) and `until` (excluded; null for no end),
    and `shadows`, the pairs of such times between which the rule was in shadow mode. A removal ends a
    limit. A complete snapshot ends every limit that it lacks; an incomplete one is ignored. With a `day`
    (UTC) only the rows that its minutes need are read.
    """
    if day is not None:
        changes = changes.where(F.col(DATE) <= F.lit(day))
    rows_ = _rows_of_changes(changes)
    wholes: list[_Snapshot] = []
    if parts is not None:
        wholes = _complete(parts)
        if day is not None:
            base, wholes = _needed(wholes, day)
            if base is not None:
                rows_ = rows_.where(F.col("order") > base.order())
        rows_ = rows_.unionByName(_rows_of_snapshots(parts, wholes))
    pieces = _pieces(rows_, wholes).where(F.col("value").isNotNull())
    is_mark = F.col("key") == SHADOW
    times = F.collect_list(F.struct("since", "until"))
    marked = pieces.where(is_mark).groupBy("rule").agg(times.alias("shadows"))
    return pieces.where(~is_mark).join(marked, "rule", "left")


def _rows_of_changes(changes: DataFrame) -> DataFrame:
    """Return `rule`, `key`, `value` (null for none) and `time` of each change, with an `order` of the
    changes.

    A mark of shadow mode is a key with the value 1.
    """
    if "event" not in changes.columns:  # written before other events existed
        changes = changes.withColumns({"event": F.lit(LIMIT), "shadow": F.lit(None).cast("boolean")})
    is_mark = F.col("event").eqNullSafe(SHADOW)
    return changes.select(
        rule_text(F.col("entity")).alias("rule"),
        F.when(is_mark, F.lit(SHADOW)).otherwise(F.col("key")).alias("key"),
        F.when(is_mark, F.when(F.col("shadow"), F.lit(1.0))).otherwise(F.col("new")).alias("value"),
        "time",
        _order(F.col("version"), 0, F.unix_micros("time"), F.col("offset")),
    )


def _rows_of_snapshots(parts: DataFrame, wholes: list[_Snapshot]) -> DataFrame:
    """Return the same for the rules of those snapshots."""
    mark = F.create_map(F.lit(SHADOW), F.lit(1.0))
    values = F.when(F.col("shadow"), F.map_concat("limits", mark)).otherwise(F.col("limits"))
    is_used = F.col("snapshot").isin([whole.name for whole in wholes])
    return parts.where(is_used & (F.col("part") > 0)).select(
        rule_text(F.col("entity")).alias("rule"),
        F.explode(values).alias("key", "value"),
        "time",
        _order(F.col("version"), 1, F.unix_micros("time"), F.col("part")),
    )


def _complete(parts: DataFrame) -> list[_Snapshot]:
    """Return the snapshots with all parts, in order."""
    found = parts.groupBy("snapshot").agg(
        F.count_distinct("part").alias("there"),
        F.min("parts").alias("parts"),
        F.max("version").alias("version"),
        F.max(F.unix_micros("time")).alias("time_us"),
    )
    rows = found.where(F.col("there") == F.col("parts")).collect()
    return sorted(_Snapshot(row["version"], row["time_us"], row["snapshot"]) for row in rows)


def _needed(wholes: list[_Snapshot], day: date) -> tuple[_Snapshot | None, list[_Snapshot]]:
    """Return the last snapshot before the day, if any, and all snapshots from it on; older ones are not
    needed.
    """
    begin_us = int(datetime.combine(day, time(), UTC).timestamp()) * 1_000_000
    known = [whole for whole in wholes if whole.time_us < begin_us + DAY_US]
    before = [at for at, whole in enumerate(known) if whole.time_us <= begin_us]
    return (known[before[-1]], known[before[-1] :]) if before else (None, known)


def _pieces(rows_: DataFrame, wholes: list[_Snapshot]) -> DataFrame:
    """Add the times `since` and `until`; `until` is the next change or the next snapshot."""
    in_order = Window.partitionBy("rule", "key").orderBy("order")
    end = F.lead(F.struct("order", "time")).over(in_order)
    if wholes:
        marks = F.array(*(F.struct(whole.order(), whole.time()) for whole in wholes))
        later = F.filter(marks, lambda mark: mark["order"] > F.col("order"))
        end = F.least(end, F.get(later, 0))
    rows_ = rows_.withColumn("end", end)
    return rows_.select(
        "rule", "key", "value", F.col("time").alias("since"), F.col("end.time").alias("until")
    )


def _order(version: Column, is_snapshot: int, time_us: Column, place: Column) -> Column:
    """Order changes: of the same version the snapshot comes later, and of two snapshots the later one."""
    return F.struct(
        version.alias("version"),
        F.lit(is_snapshot).alias("is_snapshot"),
        time_us.alias("time_us"),
        place.alias("place"),
    ).alias("order")


def used(usage: DataFrame) -> DataFrame:
    """Turn rows of gold.usage_per_minute into a row for each quota key: `key` and `rate`, per second.

    100 % of request_percentage is one thread.
    """
    rates = {
        "producer_byte_rate": F.col("produce_bytes") / 60,
        "consumer_byte_rate": F.col("fetch_bytes") / 60,
        "request_percentage": F.col("handler_us") / 600_000,
    }
    each = F.array(*(F.struct(F.lit(key).alias("key"), rate.alias("rate")) for key, rate in rates.items()))
    return usage.select(
        DATE, MINUTE, *ORIGIN, "principal", "client_id", F.explode(each).alias("each")
    ).select(DATE, MINUTE, *ORIGIN, "principal", "client_id", "each.key", "each.rate")


def governed(use: DataFrame, limits: DataFrame) -> DataFrame:
    """Add to `used` the limit in force at the end of the minute: `rule`, `value`, `sharer` and `shadow`.

    `sharer` distinguishes the usage of different allowances under the rule. Usage without a limit is left
    out.
    """
    client_columns = ("principal", "client_id", "key")
    candidates = F.array(*(_candidate(rank, *level) for rank, level in enumerate(LEVELS)))
    # Look up rules per name, of which there are few, not per minute of each name.
    names = use.select(*client_columns).distinct().withColumn("each", F.explode(candidates))
    lookups = names.select(*client_columns, "each.rank", "each.rule", "each.sharer")
    rules = lookups.join(F.broadcast(limits), ["rule", "key"])
    in_order = F.array_sort(
        F.collect_list(F.struct("rank", "since", "until", "rule", "sharer", "value", "shadows"))
    )
    named = rules.groupBy(*client_columns).agg(in_order.alias("rules")).alias("named")
    same = reduce(and_, (F.col(f"use.{name}").eqNullSafe(F.col(f"named.{name}")) for name in client_columns))
    at = F.col(MINUTE) + F.expr("INTERVAL 1 MINUTE")

    def holds(rule: Column) -> Column:
        return (rule["since"] < at) & (rule["until"].isNull() | (rule["until"] >= at))

    first = F.get(F.filter("named.rules", holds), 0)
    # Sorted: Spark takes either side for small from the size of its compressed files, and both can be large.
    governed_use = use.alias("use").join(named.hint("merge"), same).select("use.*", first.alias("first"))
    return governed_use.where(F.col("first").isNotNull()).select(
        *use.columns,
        "first.rule",
        "first.sharer",
        "first.value",
        F.coalesce(F.exists("first.shadows", holds), F.lit(False)).alias("shadow"),
    )


def utilisation_per_minute(usage: DataFrame, limits: DataFrame) -> DataFrame:
    """Return the utilisation of each limit: 1.0 is at the limit. Usage of clients that share a limit is
    summed.

    `shadow`: the limit was measured and not enforced.
    """
    return (
        governed(used(usage), limits)
        .groupBy(DATE, MINUTE, *ORIGIN, "key", "rule", "sharer")
        .agg(
            F.sum("rate").alias("rate"),
            F.max("value").alias("limit"),
            F.max("shadow").alias("shadow"),
            F.count("*").alias("clients"),
        )
        .withColumn("utilisation", F.col("rate") / F.col("limit"))
    )


def _candidate(rank: int, user: str | None, client_id: str | None) -> Column:
    parts = {"user": (user, "principal"), "client-id": (client_id, "client_id")}
    entries = [
        (F.lit(kind), F.col(column) if part == "name" else F.lit(None).cast("string"))
        for kind, (part, column) in parts.items()
        if part is not None
    ]
    rule = F.map_from_arrays(F.array(*(kind for kind, _ in entries)), F.array(*(name for _, name in entries)))
    # A default has a separate allowance for each name.
    rows_ = [F.col(column) for part, column in parts.values() if part is not None]
    return F.struct(
        F.lit(rank).alias("rank"), rule_text(rule).alias("rule"), F.to_json(F.array(*rows_)).alias("sharer")
    )
