"""Histograms of the phases of requests, as silver.requests has them. For `silver` and `gold`.

An event has a histogram as pairs of the upper edge of a bucket, in microseconds, and its number of requests;
silver has it as a map, which Parquet writes and reads in two thirds of the time.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline import java_functions
from pipeline.formats import PHASES

HISTOGRAMS: Final = "histograms"
"""The column of silver.requests: a struct with a histogram for each phase."""

PHASES_BEFORE: Final = "phases"
"""The column, with the pairs of the events, that earlier versions wrote instead."""


def histograms_of(phases: str, spark: SparkSession) -> Column:
    """Return the histograms in a column with the pairs of each phase, as a struct.

    What is not a pair of numbers is left out. A histogram is null if an edge is in it twice.
    """
    of_pairs = java_functions.histogram if java_functions.are_known(spark) else _histogram
    return F.struct(*(of_pairs(F.col(f"{phases}.{name}")).alias(name) for name in PHASES))


def with_histograms(requests: DataFrame) -> DataFrame:
    """Return silver.requests with `HISTOGRAMS` in all rows, also in those of earlier versions."""
    if PHASES_BEFORE not in requests.columns:
        return requests
    found = histograms_of(PHASES_BEFORE, requests.sparkSession)
    if HISTOGRAMS in requests.columns:
        found = F.when(F.col(PHASES_BEFORE).isNotNull(), found).otherwise(F.col(HISTOGRAMS))
    return requests.withColumn(HISTOGRAMS, found)


def _histogram(pairs: Column) -> Column:
    """Return what `java_functions.histogram` does."""
    numbers = F.filter(
        pairs,
        lambda pair: (F.size(pair) == 2) & F.get(pair, 0).isNotNull() & F.get(pair, 1).isNotNull(),
    )
    edges = F.transform(numbers, lambda pair: F.get(pair, 0))
    counts = F.transform(numbers, lambda pair: F.get(pair, 1))
    is_map = F.size(F.array_distinct(edges)) == F.size(edges)
    return F.when(is_map, F.map_from_arrays(edges, counts))
