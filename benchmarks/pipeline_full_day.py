"""Measures a batch on a day that already holds many events, and the same batch on an empty day.

For benchmarks.pipeline. Both warehouses are in one process and take turns, so that both have the same
compiled code. The events that the day holds are copies of the first batch at later times, made by Spark in
the tables themselves: in the formats that the pipeline writes, without running it for each.
"""

import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from benchmarks.descendants import processor_s
from benchmarks.pipeline_day import write_day

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.run import Pipeline
    from pipeline.tables import Table

BATCH_S: Final = 360
"""Seconds of a batch's events."""

WARM: Final = 2
"""Batches of each warehouse before the first that is timed."""

TIMED: Final = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """The cost of one batch: seconds of wall time and of the processor time of all of Spark's processes."""

    seconds: float
    processor_s: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, processor time {self.processor_s:.1f} s"


def measure(scratch: Path, clients: int, batch: int, held: int, memory: str) -> Iterator[str]:
    """Yield a line for each timed batch, and one with the ratios of the medians."""
    from pipeline import session
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse

    batches = WARM + TIMED
    write_day(scratch / "batches", clients, batches * batch, seconds=batches * BATCH_S)
    spark = session.open_session("local[2]", memory=memory)
    try:
        turns: dict[str, list[Turn]] = {"an empty day": [], "a full day": []}
        pipelines = {name: Pipeline(Warehouse(spark, str(scratch / name[2:]))) for name in turns}
        counts = rows_of(scratch / "batches")
        for number in range(batches):
            for name, pipeline in pipelines.items():
                turn = _take(pipeline, batch_of(spark, scratch / "batches", counts, number, batches), number)
                if number >= WARM:
                    turns[name].append(turn)
                    yield f"  batch {number} of {batch:,} events on {name}: {turn}"
            if number == 0:
                began, copies = time.perf_counter(), held // batch
                _fill(pipelines["a full day"], copies, first=batches)
                seconds = time.perf_counter() - began
                yield f"  the full day holds {(copies + 1) * batch:,} events, copied in {seconds:.0f} s"
        wall, used = (
            statistics.median(getattr(turn, what) for turn in turns["a full day"])
            / statistics.median(getattr(turn, what) for turn in turns["an empty day"])
            for what in ("seconds", "processor_s")
        )
        yield (
            f"  a batch on a full day costs {wall:.2f} times the wall time and {used:.2f} times the "
            "processor time of one on an empty day (goal: 1.2)"
        )
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def rows_of(folder: Path) -> dict[str, int]:
    """Return the number of records of each topic."""
    counts: dict[str, int] = {}
    for path in folder.glob("*.parquet"):
        topic = "__" + path.name.rpartition("-")[0]
        counts[topic] = counts.get(topic, 0) + pq.ParquetFile(path).metadata.num_rows
    return counts


def batch_of(
    spark: "SparkSession", folder: Path, counts: dict[str, int], number: int, batches: int
) -> "DataFrame":
    """Return one of `batches` equal parts of each topic, in order of time."""
    from pipeline import sources

    each = [
        f"(topic = '{topic}' AND offset >= {rows * number // batches} "
        f"AND offset < {rows * (number + 1) // batches})"
        for topic, rows in counts.items()
    ]
    return sources.raw_of(spark.read.schema(sources.RAW).parquet(str(folder))).where(" OR ".join(each))


def _take(pipeline: "Pipeline", rows: "DataFrame", number: int) -> Turn:
    used, began = processor_s(), time.perf_counter()
    pipeline.take(rows, number)
    return Turn(time.perf_counter() - began, processor_s() - used)


def _fill(pipeline: "Pipeline", copies: int, first: int) -> None:
    """Copy what the tables have to later times of the day, from batch `first` on."""
    from pipeline import silver
    from pipeline.run import BY_MINUTE
    from pipeline.sources import EVENTS

    for table in (EVENTS, *silver.TABLES.values(), *(each.table for each in BY_MINUTE)):
        if pipeline.warehouse.exists(table):
            _copy(pipeline, table, copies, first)


def _copy(pipeline: "Pipeline", table: "Table", copies: int, first: int) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    rows = pipeline.warehouse.read(table)
    later = F.make_dt_interval(secs=F.col("copy") * BATCH_S)
    times = {name: F.col(name) + later for name in ("time", "minute", "timestamp") if name in rows.columns}
    places = {"offset": F.col("offset") + F.col("copy") * 10**9} if "offset" in rows.columns else {}
    numbers = rows.sparkSession.range(first, first + copies).withColumnRenamed("id", "copy")
    copied = rows.crossJoin(F.broadcast(numbers)).withColumns({**times, **places}).drop("copy")
    pipeline.warehouse.append(table, copied)
