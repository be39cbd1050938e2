"""Durations of the phases of requests, per minute and API: quantiles of merged histograms.

Arrow adds up the histograms per bucket edge in the executors' workers; Spark's `explode` would copy a row for
every pair.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from pipeline.formats import PHASES
from pipeline.headers import ORIGIN
from pipeline.tables import DATE, Table
from pipeline.times import MINUTE, minute_of

TABLE: Final = Table("gold/phase_quantiles_per_minute", (MINUTE, *ORIGIN, "api", "phase"))

_KEYS: Final = (MINUTE, *ORIGIN, "api")
_COUNTED_SCHEMA: Final = (
    f"{MINUTE} timestamp, cluster string, node int, api string, phase string, us bigint, count bigint"
)

BATCH_ROWS: Final = 16_384
"""Minimum number of rows to add up together; more rows give fewer results."""

QUANTILES: Final = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def phase_quantiles_per_minute(requests: DataFrame) -> DataFrame:
    """Return quantiles of the timed requests that had the phase, from silver.requests; `timed` counts them.

    A quantile is the upper edge of its bucket: never too small, and less than an eighth too large.
    """
    histograms = [F.col(f"phases.{name}").alias(name) for name in PHASES]
    timed_rows = requests.where(F.col("timed") > 0).select(
        minute_of().alias(MINUTE), *ORIGIN, "api", *histograms
    )
    buckets = (
        timed_rows.mapInArrow(count_buckets(_KEYS, PHASES), _COUNTED_SCHEMA)
        .groupBy(*_KEYS, "phase", "us")
        .agg(F.try_sum("count").alias("count"))
    )
    whole = Window.partitionBy(MINUTE, *ORIGIN, "api", "phase")
    so_far = whole.orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets.withColumn("so_far", F.sum("count").over(so_far)).withColumn(
        "timed", F.sum("count").over(whole)
    )
    return ranked.groupBy(F.to_date(MINUTE).alias(DATE), MINUTE, *ORIGIN, "api", "phase").agg(
        F.first("timed").alias("timed"),
        *(
            F.min(F.when(F.col("so_far") >= q * F.col("timed"), F.col("us"))).alias(name)
            for name, q in QUANTILES.items()
        ),
        F.max("us").alias("max_us"),
    )


def count_buckets(
    keys: Sequence[str], names: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that adds up histograms.

    It turns rows of `keys` and of histograms (`names`: lists of pairs of microseconds and a count) into
    rows of `keys`, `phase`, `us` and `count`. Entries that are not a pair of numbers are ignored.
    """

    def count_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending: list[pa.RecordBatch] = []
        for batch in batches:
            pending.append(batch)
            if sum(map(len, pending)) >= BATCH_ROWS:
                yield _count_together(pending, keys, names)
                pending = []
        if pending:
            yield _count_together(pending, keys, names)

    return count_batches


def _count_together(
    batches: list[pa.RecordBatch], keys: Sequence[str], names: Sequence[str]
) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    group_of, examples = _groups([table[key] for key in keys])
    histograms = pa.concat_arrays([chunk for name in names for chunk in table[name].chunks])
    places, numbers = _pairs(histograms)
    groups: np.ndarray = group_of[places % len(table)] * len(names) + places // len(table)
    pairs = {"at": groups, "us": numbers[0::2], "count": numbers[1::2]}
    some = pa.table(pairs).filter(pc.and_(pc.is_valid(pairs["us"]), pc.is_valid(pairs["count"])))
    found = some.group_by(["at", "us"], use_threads=False).aggregate([("count", "sum")])
    at = found["at"].to_numpy()
    columns: dict[str, Any] = {key: table[key].take(examples[at // len(names)]) for key in keys}
    columns["phase"] = pa.array(list(names)).take(pa.array(at % len(names)))
    columns |= {"us": found["us"], "count": found["count_sum"]}
    return pa.table(columns).combine_chunks().to_batches()[0] if len(found) else _no_rows(table, keys)


def _no_rows(table: pa.Table, keys: Sequence[str]) -> pa.RecordBatch:
    kinds = [*(table.schema.field(key) for key in keys), pa.field("phase", pa.string())]
    return pa.RecordBatch.from_pylist(
        [], pa.schema([*kinds, pa.field("us", pa.int64()), pa.field("count", pa.int64())])
    )


def _groups(columns: list[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of its group of equal rows, and for each group one of its rows."""
    codes: np.ndarray = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        others = len(encoded.dictionary)
        codes = codes * (others + 1) + encoded.indices.fill_null(others).to_numpy(zero_copy_only=False)
    _, examples, group_of = np.unique(codes, return_index=True, return_inverse=True)
    return group_of, examples


def _pairs(histograms: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return for each pair the place of its histogram, and the numbers of all pairs."""
    places, pairs = pc.list_parent_indices(histograms), pc.list_flatten(histograms)
    is_pair = pc.equal(pc.list_value_length(pairs), 2)
    if not pc.all(is_pair, skip_nulls=False).as_py():
        places, pairs = places.filter(is_pair), pairs.filter(is_pair)
    return places.to_numpy(zero_copy_only=False), pc.list_flatten(pairs)
