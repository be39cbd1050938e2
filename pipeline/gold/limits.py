"""Which limit held for whom and when, and how much of it was used.

The search is the broker's: of the eight entities that could govern a client the most particular that exists,
for each key by itself (docs/quotas.md). Clients under one rule share what the rule does not tell apart.
"""

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline.gold.throttling import rule_text
from pipeline.gold.usage import MINUTE
from pipeline.tables import DATE, Table

UTILISATION: Final = Table("gold/quota_utilisation_per_minute", (MINUTE, "node", "key", "rule", "sharer"))

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


def limits_over_time(changes: DataFrame) -> DataFrame:
    """Of silver.quota_changes: `rule`, `key`, `value`, and the times `since` (included) and `until`
    (not; null for ever). A removal ends a limit and begins none.
    """
    order = Window.partitionBy("rule", "key").orderBy("version", "offset")
    return (
        changes.withColumn("rule", rule_text(F.col("entity")))
        .withColumn("until", F.lead("time").over(order))
        .where(F.col("new").isNotNull())
        .select("rule", "key", F.col("new").alias("value"), F.col("time").alias("since"), "until")
    )


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
    tells this client's use from that of others under the rule. Use without a limit is left out.
    """
    who = ("principal", "client_id", "key")
    wanted = F.array(*(_candidate(rank, *level) for rank, level in enumerate(LEVELS)))
    # Rules are looked for once for each name, of which there are few, and not for each of its minutes.
    names = use.select(*who).distinct().withColumn("each", F.explode(wanted))
    asked = names.select(*who, "each.rank", "each.rule", "each.sharer")
    rules = asked.join(F.broadcast(limits), ["rule", "key"])
    in_order = F.array_sort(F.collect_list(F.struct("rank", "since", "until", "rule", "sharer", "value")))
    named = rules.groupBy(*who).agg(in_order.alias("rules")).alias("named")
    same = reduce(and_, (F.col(f"use.{name}").eqNullSafe(F.col(f"named.{name}")) for name in who))
    at = F.col(MINUTE) + F.expr("INTERVAL 1 MINUTE")

    def holds(rule: Column) -> Column:
        return (rule["since"] < at) & (rule["until"].isNull() | (rule["until"] >= at))

    first = F.get(F.filter("named.rules", holds), 0)
    held = use.alias("use").join(named, same).select("use.*", first.alias("first"))
    return held.where(F.col("first").isNotNull()).select(
        *use.columns, "first.rule", "first.sharer", "first.value"
    )


def utilisation_per_minute(usage: DataFrame, limits: DataFrame) -> DataFrame:
    """How much of each limit was used: 1.0 is at the limit. Clients that share a limit are added up."""
    return (
        governed(used(usage), limits)
        .groupBy(DATE, MINUTE, "node", "key", "rule", "sharer")
        .agg(
            F.sum("rate").alias("rate"),
            F.max("value").alias("limit"),
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
