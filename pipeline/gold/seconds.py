"""Each client's use by second: a row for each minute, with the seconds in it.

`advice` reads it: a quota looks back ten seconds, and a minute's mean hides what it throttles. A day of it is
a fraction of the day in silver, because neither histograms nor a record's place are in it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import ORIGIN
from pipeline.gold.usage import CLIENT
from pipeline.tables import Table
from pipeline.times import MINUTE, minute_of, second_of, with_day

SECONDS: Final = Table("gold/usage_seconds", (MINUTE, *ORIGIN, *CLIENT))

SECOND: Final = "second"

SUMS: Final = (
    *("produce_bytes", "produce_requests", "produce_throttle_ms"),
    *("fetch_bytes", "fetch_requests", "fetch_throttle_ms"),
    *("handler_us", "requests", "throttle_ms"),
)
"""The fields of a second, besides its number."""


def usage_seconds(requests: DataFrame) -> DataFrame:
    """Return the seconds in which a client was active, from silver.requests; sums as in
    `usage.usage_per_minute`.
    """
    produced, fetched = F.col("api") == "Produce", F.col("api").startswith("Fetch")
    throttled = F.coalesce("throttle_ms", F.lit(0))
    sums = (
        *(F.when(produced, each) for each in (F.col("bytes_in"), F.col("requests"), throttled)),
        *(F.when(fetched, each) for each in (F.col("bytes_out"), F.col("requests"), throttled)),
        *(F.col("handler_us"), F.col("requests"), throttled),
    )
    of_client = (MINUTE, *ORIGIN, *CLIENT)
    return with_day(
        requests.where(F.col("source") == "client")
        .select(
            minute_of().alias(MINUTE),
            *ORIGIN,
            *CLIENT,
            second_of().alias(SECOND),
            *(each.alias(name) for name, each in zip(SUMS, sums, strict=True)),
        )
        # Before both aggregates, so that the second needs no exchange.
        .repartition(*of_client)
        .groupBy(*of_client, SECOND)
        .agg(*(_sum(name) for name in SUMS))
        .groupBy(*of_client)
        .agg(F.array_sort(F.collect_list(F.struct(SECOND, *SUMS))).alias("seconds"))
    )


def _sum(name: str) -> Column:
    return F.coalesce(F.try_sum(name), F.lit(0)).alias(name)
