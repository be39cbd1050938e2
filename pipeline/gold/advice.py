"""Recommended quotas: a client's usual need plus headroom, with a reason that can be checked."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from broker.common.principal import ANONYMOUS
from pipeline.gold.limits import used
from pipeline.tables import CLUSTER, DATE, Table
from pipeline.times import MINUTE

TABLE: Final = Table("gold/quota_advice", (DATE, CLUSTER, "user", "client_id", "key"))


@dataclass(frozen=True, slots=True)
class Policy:
    """`percentile` of the active minutes of a client must fit, with `headroom` as a factor on top.

    A client with fewer than `least_minutes` active minutes gets no advice.
    """

    percentile: float = 0.95
    headroom: float = 1.25
    least_minutes: int = 30


def quota_advice(usage: DataFrame, day: Column, policy: Policy = Policy()) -> DataFrame:
    """Return advice from minutes of gold.usage_per_minute; `day` is the date of the advice.

    Advice is for a user where clients authenticate, else for a client id. `throttled_share` is the share of
    active minutes whose mean exceeds the recommendation: a lower bound of what it would have throttled.
    """
    is_user = F.col("principal") != ANONYMOUS
    by_name = used(usage).select(
        CLUSTER,
        MINUTE,
        "key",
        "rate",
        F.when(is_user, F.col("principal")).alias("user"),
        F.when(~is_user, F.col("client_id")).alias("client_id"),
    )
    # The usage of one name within a minute, over all of its clients and a cluster's brokers.
    minutes = by_name.groupBy(CLUSTER, "user", "client_id", "key", MINUTE).agg(F.sum("rate").alias("rate"))
    active = minutes.where(F.col("rate") > 0)
    needs = active.groupBy(CLUSTER, "user", "client_id", "key").agg(
        F.count("*").alias("minutes"),
        F.percentile("rate", F.lit(policy.percentile)).alias("needed"),
        F.max("rate").alias("peak"),
        F.collect_list("rate").alias("rates"),
    )
    enough = needs.where(F.col("minutes") >= policy.least_minutes).withColumn(
        "recommended", _rounded_up(F.col("needed") * policy.headroom)
    )
    over = F.size(F.filter("rates", lambda rate: rate > F.col("recommended"))).cast("long")
    facts = ("minutes", "needed", "peak", "recommended")
    share = F.col("throttled_minutes") / F.col("minutes")
    return enough.withColumn("throttled_minutes", over).select(
        day.alias(DATE),
        CLUSTER,
        "user",
        "client_id",
        "key",
        *facts,
        "throttled_minutes",
        share.alias("throttled_share"),
        _reason(policy).alias("reason"),
    )


def _rounded_up(value: Column) -> Column:
    """Round up to two digits, so that a recommendation does not look like a measurement."""
    unit = F.pow(F.lit(10.0), F.floor(F.log10(value)) - 1)
    return F.round(F.ceil(F.round(value / unit, 6)) * unit, 6)


def _reason(policy: Policy) -> Column:
    return F.format_string(
        f"In {policy.percentile:.0%}% of %,d active minutes the rate was at most %s, its maximum was %s; "
        f"with {policy.headroom - 1:.0%}% headroom the limit is %s. "
        "%,d of those minutes would have been throttled.",
        F.col("minutes"),
        _in_words(F.col("needed")),
        _in_words(F.col("peak")),
        _in_words(F.col("recommended")),
        F.col("throttled_minutes"),
    )


def _in_words(value: Column) -> Column:
    """Format a value with its unit: bytes per second, or percent of a thread."""
    is_share = F.col("key") == "request_percentage"
    return (
        F.when(is_share, F.format_string("%.2f %% of a thread", value))
        .when(value >= 1e6, F.format_string("%.1f MB/s", value / 1e6))
        .when(value >= 1e3, F.format_string("%.1f kB/s", value / 1e3))
        .otherwise(F.format_string("%.0f B/s", value))
    )
