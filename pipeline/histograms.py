"""Histograms of the phases of requests, as silver.requests has them. For `silver` and `gold`.

A value of the topic has a histogram as pairs of the upper edge of a bucket, in microseconds, and its number
of requests; silver has it as a map, which Parquet writes and reads in two thirds of the time.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DoubleType, LongType, MapType, StructField, StructType

from pipeline.formats import PHASES, REQUESTS, VALUES

HISTOGRAMS: Final = "histograms"
"""The column of silver.requests: a struct with a histogram for each phase."""

LOCAL_US: Final = "local_us"
"""The field of an event: the handlers' time of its timed requests, in microseconds; null without any."""

PHASES_BEFORE: Final = "phases"
"""The field of a value with the pairs; earlier versions wrote it as a column instead of `HISTOGRAMS`."""

_FIELDS: Final = (
    StructField(
        HISTOGRAMS, StructType([StructField(name, MapType(LongType(), LongType())) for name in PHASES])
    ),
    StructField(LOCAL_US, DoubleType()),
)

EVENT: Final = StructType(
    [field for each in VALUES[REQUESTS] for field in (_FIELDS if each.name == PHASES_BEFORE else (each,))]
)
"""A request as `event_of` returns it: a value with `HISTOGRAMS` and `LOCAL_US` in place of its phases."""


def event_of(value: Column) -> Column:
    """Return `EVENT` of a struct with a value's fields; null for null. Spark evaluates the struct once."""

    def event(value: Column) -> Column:
        phases = value[PHASES_BEFORE]
        of_phases = {HISTOGRAMS: histograms_of(phases), LOCAL_US: _sum_of_products(phases["local"])}
        fields = (of_phases.get(name, value[name]).alias(name) for name in EVENT.names)
        return F.when(value.isNotNull(), F.struct(*fields))

    return F.get(F.transform(F.array(value), event), 0)


def histograms_of(phases: Column) -> Column:
    """Return the histograms in a struct with the pairs of each phase, as a struct.

    What is not a pair of numbers is left out. A histogram is null if an edge is in it twice.
    """
    return F.struct(*(_histogram(phases[name]).alias(name) for name in PHASES))


def with_histograms(requests: DataFrame) -> DataFrame:
    """Return silver.requests with `HISTOGRAMS` in all rows, also in those of earlier versions."""
    if PHASES_BEFORE not in requests.columns:
        return requests
    found = histograms_of(F.col(PHASES_BEFORE))
    if HISTOGRAMS in requests.columns:
        found = F.when(F.col(PHASES_BEFORE).isNotNull(), found).otherwise(F.col(HISTOGRAMS))
    return requests.withColumn(HISTOGRAMS, found)


def _histogram(pairs: Column) -> Column:
    numbers = F.filter(
        pairs,
        lambda pair: (F.size(pair) == 2) & F.get(pair, 0).isNotNull() & F.get(pair, 1).isNotNull(),
    )
    edges = F.transform(numbers, lambda pair: F.get(pair, 0))
    counts = F.transform(numbers, lambda pair: F.get(pair, 1))
    is_map = F.size(F.array_distinct(edges)) == F.size(edges)
    return F.when(is_map, F.map_from_arrays(edges, counts))


def _sum_of_products(pairs: Column) -> Column:
    """Return the sum of the edges times their counts, null without pairs; an invalid pair adds 0."""
    return F.aggregate(pairs, F.lit(0.0), lambda total, each: total + _product(each))


def _product(pair: Column) -> Column:
    edge, count = (F.get(pair, at).cast("double") for at in (0, 1))
    return F.coalesce(edge * count, F.lit(0.0))
