"""Which limit held for whom and when, and how much of it was used.

The search is the broker's: of the eight entities that could govern a client the most particular that exists,
for each key by itself (docs/quotas.md). Clients under one rule share what the rule does not tell apart.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.formats import LIMIT, SHADOW
from pipeline.gold.throttling import rule_text
from pipeline.gold.usage import MINUTE
from pipeline.tables import DATE, Table

UTILISATION: Final = Table("gold/quota_utilisation_per_minute", (MINUTE, "node", "key", "rule", "sharer"))

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
"""What a rule says of user and client-id, most particular first. (Kafka: DefaultQuotaCallback)"""


@dataclass(frozen=True, slots=True, order=True)
class _Snapshot:
    version: int
    time_us: int
    name: str

    def order(self) -> Column:
        """Before that of its rules."""
        version, time_us, place = (F.lit(each).cast("long") for each in (self.version, self.time_us, 0))
        return _order(version, 1, time_us, place)

    def time(self) -> Column:
        return F.timestamp_micros(F.lit(self.time_us).cast("long")).alias("time")


def limits_over_time(
    changes: DataFrame, parts: DataFrame | None = None, day: date | None = None
) -> DataFrame:
    """Of silver.quota_changes and silver.quota_snapshots: `rule`, `key`, `value`, the times `since`
    (included) and `until` (not; null for ever), and `shadows`, the pairs of such times between which the rule
    was only measured. A removal ends a limit and begins none. A complete snapshot ends every limit that it
    does not have; an incomplete one is not used. With a `day` (UTC) only what its minutes need is read.
    """
    if day is not None:
        changes = changes.where(F.col(DATE) <= F.lit(day))
    told = _told_by_changes(changes)
    wholes: list[_Snapshot] = []
    if parts is not None:
        wholes = _complete(parts)
        if day is not None:
            base, wholes = _needed(wholes, day)
            if base is not None:
                told = told.where(F.col("order") > base.order())
        told = told.unionByName(_told_by_snapshots(parts, wholes))
    pieces = _pieces(told, wholes).where(F.col("value").isNotNull())
    is_mark = F.col("key") == SHADOW
    times = F.collect_list(F.struct("since", "until"))
    marked = pieces.where(is_mark).groupBy("rule").agg(times.alias("shadows"))
    return pieces.where(~is_mark).join(marked, "rule", "left")


def _told_by_changes(changes: DataFrame) -> DataFrame:
    """`rule`, `key` and `value` from a `time` on, null for none, and an `order` that tells which of two came
    later. A mark of shadow mode is a key with the value 1.
    """
    if "event" not in changes.columns:  # written before there were others
        changes = changes.withColumns({"event": F.lit(LIMIT), "shadow": F.lit(None).cast("boolean")})
    is_mark = F.col("event").eqNullSafe(SHADOW)
    return changes.select(
        rule_text(F.col("entity")).alias("rule"),
        F.when(is_mark, F.lit(SHADOW)).otherwise(F.col("key")).alias("key"),
        F.when(is_mark, F.when(F.col("shadow"), F.lit(1.0))).otherwise(F.col("new")).alias("value"),
        "time",
        _order(F.col("version"), 0, F.unix_micros("time"), F.col("offset")),
    )


def _told_by_snapshots(parts: DataFrame, wholes: list[_Snapshot]) -> DataFrame:
    """The same, of those snapshots; what one does not have is not among the rows."""
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
    """Those of which every part is there, in their order."""
    found = parts.groupBy("snapshot").agg(
        F.count_distinct("part").alias("there"),
        F.min("parts").alias("parts"),
        F.max("version").alias("version"),
        F.max(F.unix_micros("time")).alias("time_us"),
    )
    rows = found.where(F.col("there") == F.col("parts")).collect()
    return sorted(_Snapshot(row["version"], row["time_us"], row["snapshot"]) for row in rows)


def _needed(wholes: list[_Snapshot], day: date) -> tuple[_Snapshot | None, list[_Snapshot]]:
    """The last one before the day, if there is one, for nothing older is needed; and all from it on."""
    begin_us = int(datetime.combine(day, time(), UTC).timestamp()) * 1_000_000
    known = [whole for whole in wholes if whole.time_us < begin_us + DAY_US]
    before = [at for at, whole in enumerate(known) if whole.time_us <= begin_us]
    return (known[before[-1]], known[before[-1] :]) if before else (None, known)


def _pieces(told: DataFrame, wholes: list[_Snapshot]) -> DataFrame:
    """What was told with the times `since` and `until`: the next that was told, or the next snapshot."""
    in_order = Window.partitionBy("rule", "key").orderBy("order")
    end = F.lead(F.struct("order", "time")).over(in_order)
    if wholes:
        marks = F.array(*(F.struct(whole.order(), whole.time()) for whole in wholes))
        later = F.filter(marks, lambda mark: mark["order"] > F.col("order"))
        end = F.least(end, F.get(later, 0))
    told = told.withColumn("end", end)
    return told.select("rule", "key", "value", F.col("time").alias("since"), F.col("end.time").alias("until"))


def _order(version: Column, is_snapshot: int, time_us: Column, place: Column) -> Column:
    """Tells which of two came later: of the same version the snapshot, and of two of them the later one."""
    return F.struct(
        version.alias("version"),
        F.lit(is_snapshot).alias("is_snapshot"),
        time_us.alias("time_us"),
        place.alias("place"),
    ).alias("order")


def used(usage: DataFrame) -> DataFrame:
    """Rows of gold.usage_per_minute as one row for each key that limits: `key` and `rate`, per second; 100 %
    of requests is one thread.
    """
    rates = {
        "producer_byte_rate": F.col("produce_bytes") / 60,
        "consumer_byte_rate": F.col("fetch_bytes") / 60,
        "request_percentage": F.col("handler_us") / 600_000,
    }
    each = F.array(*(F.struct(F.lit(key).alias("key"), rate.alias("rate")) for key, rate in rates.items()))
    return usage.select(DATE, MINUTE, "node", "principal", "client_id", F.explode(each).alias("each")).select(
        DATE, MINUTE, "node", "principal", "client_id", "each.key", "each.rate"
    )


def governed(use: DataFrame, limits: DataFrame) -> DataFrame:
    """`used` with the limit that held at the end of the minute: `rule`, `value`, and `sharer`, the name that
    tells this client's use from that of others under the rule; `shadow`: it was only measured. Use without a
    limit is left out.
    """
    who = ("principal", "client_id", "key")
    wanted = F.array(*(_candidate(rank, *level) for rank, level in enumerate(LEVELS)))
    # Rules are looked for once for each name, of which there are few, and not for each of its minutes.
    names = use.select(*who).distinct().withColumn("each", F.explode(wanted))
    asked = names.select(*who, "each.rank", "each.rule", "each.sharer")
    rules = asked.join(F.broadcast(limits), ["rule", "key"])
    in_order = F.array_sort(
        F.collect_list(F.struct("rank", "since", "until", "rule", "sharer", "value", "shadows"))
    )
    named = rules.groupBy(*who).agg(in_order.alias("rules")).alias("named")
    same = reduce(and_, (F.col(f"use.{name}").eqNullSafe(F.col(f"named.{name}")) for name in who))
    at = F.col(MINUTE) + F.expr("INTERVAL 1 MINUTE")

    def holds(rule: Column) -> Column:
        return (rule["since"] < at) & (rule["until"].isNull() | (rule["until"] >= at))

    first = F.get(F.filter("named.rules", holds), 0)
    held = use.alias("use").join(named, same).select("use.*", first.alias("first"))
    return held.where(F.col("first").isNotNull()).select(
        *use.columns,
        "first.rule",
        "first.sharer",
        "first.value",
        F.coalesce(F.exists("first.shadows", holds), F.lit(False)).alias("shadow"),
    )


def utilisation_per_minute(usage: DataFrame, limits: DataFrame) -> DataFrame:
    """How much of each limit was used: 1.0 is at the limit. Clients that share a limit are added up.
    `shadow`: the limit was measured and not enforced.
    """
    return (
        governed(used(usage), limits)
        .groupBy(DATE, MINUTE, "node", "key", "rule", "sharer")
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
        (F.lit(kind), F.col(column) if what == "name" else F.lit(None).cast("string"))
        for kind, (what, column) in parts.items()
        if what is not None
    ]
    rule = F.map_from_arrays(F.array(*(kind for kind, _ in entries)), F.array(*(name for _, name in entries)))
    # A default has a use for each name that it stands for.
    told = [F.col(column) for what, column in parts.values() if what is not None]
    return F.struct(
        F.lit(rank).alias("rank"), rule_text(rule).alias("rule"), F.to_json(F.array(*told)).alias("sharer")
    )
