"""The last totals of each cumulative series, from which the next ones are subtracted. For `tables`.

The total before a total may be a day old. `LAST_TOTALS` has it, so that no batch searches the day: for each
series the last total of each of its newest `KEPT` minutes. It is written after gold and has all totals of
silver until then. A batch that is repeated after a kill may find its own totals there, which change nothing.

What comes later than the kept minutes is answered from silver, by `tables`. So is a batch more than a day
older than the newest total, because series that have ended are removed after two days.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.conflicts import repeated
from pipeline.gold.client_metrics import LOOK_BACK, MEASURES, SERIES, TIMES, series
from pipeline.otlp.points import CUMULATIVE
from pipeline.tables import DATE, Table, Warehouse
from pipeline.times import minute_of, number_of

LAST_TOTALS: Final = Table("_last_totals", SERIES, ())
"""Only the pipeline reads this table. `totals` are the newest first, `newest` is the time of the first."""

KEPT: Final = 5
"""Batches reach back into the minute before their first one when clients or partitions are not in step."""

HORIZON: Final = 2 * LOOK_BACK

_LOOK_BACK: Final = int(LOOK_BACK / timedelta(minutes=1))

_ORDER: Final = ("TimeUnix", "StartTimeUnix", *MEASURES, "unit")
"""Of totals with the same times the largest counts, as in `client_metrics`."""


@dataclass(frozen=True, slots=True)
class Known:
    """The minutes of the table for all series: the newest total, and the oldest kept one of a
    series with `KEPT` totals; None if no series has so many.
    """

    newest: int
    oldest_kept: int | None

    def covers(self, first: int) -> bool:
        """Return whether every total before those of a minute from `first` on is in the table."""
        return self.is_near(first) and (self.oldest_kept is None or self.oldest_kept < first)

    def is_near(self, first: int) -> bool:
        """Return whether no series was removed that could matter to the minute `first`."""
        return first >= self.newest - _LOOK_BACK


def totals_of(points: DataFrame, shape: str) -> DataFrame:
    """Return the cumulative values among rows of an otel_metrics table: their series and `total`."""
    has_value = F.coalesce(
        *(F.col(name).cast("double") for name in ("Value", "Count") if name in points.columns)
    )
    totals = points.where((F.col("AggregationTemporality") == CUMULATIVE) & has_value.isNotNull())
    named = series(totals, shape)
    kinds = {"Value": "double", "Count": "bigint", "Sum": "double", "BucketCounts": "array<bigint>"}
    kinds |= {"ExplicitBounds": "array<double>", "Min": "double", "Max": "double", "IsMonotonic": "boolean"}
    fields = (
        (F.col(name) if name in named.columns else F.lit(None).cast(kinds[name])).alias(name)
        for name in _ORDER
    )
    return named.select(*SERIES, F.struct(*fields).alias("total"))


def known(warehouse: Warehouse) -> Known | None:
    """Return what the table says; None if there is none."""
    if not warehouse.exists(LAST_TOTALS):
        return None
    oldest = F.when(F.size("totals") >= KEPT, number_of(minute_of(F.element_at("totals", -1)["TimeUnix"])))
    (found,) = (
        warehouse.read(LAST_TOTALS)
        .agg(F.max(number_of(minute_of("newest"))).alias("newest"), F.max(oldest).alias("oldest"))
        .collect()
    )
    return None if found["newest"] is None else Known(found["newest"], found["oldest"])


def are_all_known(warehouse: Warehouse, totals: DataFrame) -> bool:
    """Return whether the table has the total before the first of each series' `totals`."""
    firsts = totals.groupBy(*SERIES).agg(F.min(minute_of("total.TimeUnix")).alias("first"))
    kept = warehouse.read(LAST_TOTALS).where(F.size("totals") >= KEPT)
    oldest = minute_of(F.element_at("totals", -1)["TimeUnix"])
    return bool(firsts.join(kept, [*SERIES]).where(F.col("first") <= oldest).isEmpty())


def following(warehouse: Warehouse, totals: DataFrame) -> set[int]:
    """Return the minutes of the next known total after each of `totals`, in their series."""
    new = totals.select(*SERIES, minute_of("total.TimeUnix").alias("at")).distinct()
    later = new.join(_each(warehouse), [*SERIES]).select(
        *SERIES, "at", minute_of("total.TimeUnix").alias("next")
    )
    nexts = later.where(F.col("next") > F.col("at")).groupBy(*SERIES, "at").agg(F.min("next").alias("next"))
    (found,) = nexts.agg(F.collect_set(number_of(F.col("next"))).alias("minutes")).collect()
    return set(found["minutes"])


def by_shape(warehouse: Warehouse, shape: str) -> DataFrame:
    """Return the known totals of a shape in the form of `client_metrics.series`."""
    each = _each(warehouse).where(F.col("shape") == shape)
    return each.select(*SERIES, *(F.col(f"total.{name}").alias(name) for name in ("unit", *TIMES, *MEASURES)))


def note(warehouse: Warehouse, totals: DataFrame, silver: Mapping[str, Table]) -> None:
    """Add totals that silver and gold have. An empty table is made from those of silver, by shape."""
    if not warehouse.exists(LAST_TOTALS) or warehouse.read(LAST_TOTALS).isEmpty():
        totals = reduce(
            DataFrame.unionByName,
            (
                totals_of(_of_horizon(warehouse.read(table)), shape)
                for shape, table in silver.items()
                if warehouse.exists(table)
            ),
        )
    repeated(partial(_merge, warehouse, totals))


def remove_ended(warehouse: Warehouse) -> None:
    """Remove the series whose newest total is beyond the horizon."""
    if warehouse.exists(LAST_TOTALS):
        (newest_s,) = warehouse.read(LAST_TOTALS).agg(F.max(F.unix_seconds("newest"))).collect()[0]
        if newest_s is not None:
            first_s = newest_s - int(HORIZON.total_seconds())
            warehouse.delete(LAST_TOTALS, f"unix_seconds(newest) < {first_s}")


def _merge(warehouse: Warehouse, totals: DataFrame) -> None:
    if warehouse.exists(LAST_TOTALS):
        changed = totals.select(*SERIES).distinct()
        totals = totals.unionByName(_each(warehouse).join(changed, [*SERIES], "left_semi"))
    last = totals.groupBy(*SERIES, minute_of("total.TimeUnix").alias("minute")).agg(
        F.max("total").alias("total")
    )
    newest_first = F.sort_array(F.collect_list("total"), asc=False)
    rows = last.groupBy(*SERIES).agg(
        F.max("total.TimeUnix").alias("newest"), F.slice(newest_first, 1, KEPT).alias("totals")
    )
    warehouse.merge(LAST_TOTALS, rows)


def _each(warehouse: Warehouse) -> DataFrame:
    return warehouse.read(LAST_TOTALS).select(*SERIES, F.explode("totals").alias("total"))


def _of_horizon(points: DataFrame) -> DataFrame:
    """Return the points of the newest days, by the table's partitions."""
    (newest,) = points.agg(F.max(DATE)).collect()[0]
    return points if newest is None else points.where(F.col(DATE) >= F.lit(newest - HORIZON))
