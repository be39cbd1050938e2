"""Histograms of the phases of requests, as silver.requests has them. For `silver` and `gold`.

All phases of a request are in two arrays: the numbers of its buckets, and the requests in each. A bucket's
number is ten times its upper edge in microseconds, plus the place of its phase in `PHASES`. Spark reads,
writes and adds up two arrays of numbers in a fraction of the time of six maps.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import BUCKET_COUNTS, BUCKETS, PHASE_STEP, PHASES

PAIRS_BEFORE: Final = "phases"
"""The field of values of earlier versions, and the column of their tables: pairs of an edge and a count."""

MAPS_BEFORE: Final = "histograms"
"""The column of tables of later versions: a map from edges to counts for each phase."""


def of_pairs(phases: Column) -> tuple[Column, Column]:
    """Return the buckets and their counts in a struct with the pairs of each phase, null for null.

    What is not a pair of numbers is left out. A number beyond 64 bits is null.
    """
    pairs = {name: F.filter(phases[name], _is_pair) for name in PHASES}
    return _joined(
        phases,
        {name: F.transform(each, lambda pair: F.get(pair, 0)) for name, each in pairs.items()},
        {name: F.transform(each, lambda pair: F.get(pair, 1)) for name, each in pairs.items()},
    )


def with_buckets(requests: DataFrame) -> DataFrame:
    """Return silver.requests with `BUCKETS` and `BUCKET_COUNTS` also in rows of earlier versions."""
    found = [F.col(name) if name in requests.columns else F.lit(None) for name in (BUCKETS, BUCKET_COUNTS)]
    for name, converted in ((PAIRS_BEFORE, of_pairs), (MAPS_BEFORE, _of_maps)):
        if name in requests.columns:
            found = [
                F.when(F.col(name).isNotNull(), of).otherwise(other)
                for of, other in zip(converted(F.col(name)), found, strict=True)
            ]
    return requests.withColumns(dict(zip((BUCKETS, BUCKET_COUNTS), found, strict=True)))


def phase_of(bucket: Column) -> Column:
    """Return the name of a bucket's phase; null for one that this version does not know."""
    return F.get(F.array(*map(F.lit, PHASES)), (bucket % PHASE_STEP).cast("int"))


def edge_of(bucket: Column) -> Column:
    """Return the upper edge of a bucket in microseconds."""
    return ((bucket - bucket % PHASE_STEP) / PHASE_STEP).cast("long")


def is_of(bucket: Column, phase: str) -> Column:
    """Return whether a bucket is of the phase; null without a bucket."""
    return bucket % PHASE_STEP == PHASES.index(phase)


def local_us(phases: Column) -> Column:
    """Return the handlers' time in microseconds in a struct with pairs, a double; null without pairs.

    An invalid pair adds 0.
    """
    return F.aggregate(phases["local"], F.lit(0.0), lambda total, each: total + _product(each))


def _of_maps(maps: Column) -> tuple[Column, Column]:
    return _joined(
        maps,
        {name: F.map_keys(maps[name]) for name in PHASES},
        {name: F.map_values(maps[name]) for name in PHASES},
    )


def _joined(phases: Column, edges: dict[str, Column], counts: dict[str, Column]) -> tuple[Column, Column]:
    """Return the buckets and counts of all phases in their order; a phase may be null."""
    none = F.array().cast("array<bigint>")

    def numbers(place: int, name: str) -> Column:
        return F.transform(
            edges[name], lambda edge: F.try_add(F.try_multiply(edge, F.lit(PHASE_STEP)), F.lit(place))
        )

    buckets = [F.coalesce(numbers(place, name), none) for place, name in enumerate(PHASES)]
    others = [F.coalesce(counts[name], none) for name in PHASES]
    return tuple(F.when(phases.isNotNull(), F.concat(*each)) for each in (buckets, others))


def _is_pair(pair: Column) -> Column:
    return (F.size(pair) == 2) & F.get(pair, 0).isNotNull() & F.get(pair, 1).isNotNull()


def _product(pair: Column) -> Column:
    edge, count = (F.get(pair, at).cast("double") for at in (0, 1))
    return F.coalesce(edge * count, F.lit(0.0))
