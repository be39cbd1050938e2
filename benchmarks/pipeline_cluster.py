"""What a second worker brings: `python -m benchmarks.pipeline_cluster`.

The same events are read from files to gold by a cluster of Spark with one worker of one core, and by one with
two; each first reads some, until it is warm. A worker keeps to a core; the driver shares the cores with the
workers, and nothing else may: keep the machine silent. Needs what benchmarks.pipeline needs.
"""

import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Final

import click
import pyarrow.parquet as pq

from benchmarks.pipeline_day import write_day
from benchmarks.spark_cluster import Cluster, spark_cluster

TASK_ROWS: Final = 25_000
WARM_ROWS: Final = 50_000
"""Of each topic."""


@click.command()
@click.option("--events", default=2_000_000, show_default=True, type=click.IntRange(1))
@click.option("--clients", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--workers", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1))
@click.option("--keep", type=click.Path(path_type=Path), help="Folder of events, made when it is not there.")
def main(events: int, clients: int, workers: tuple[int, ...], keep: Path | None) -> None:
    """Measure clusters of so many workers, one after the other."""
    with tempfile.TemporaryDirectory(prefix="weir-cluster-") as name:
        scratch = Path(name)
        day = keep or scratch / "day"
        if not day.exists():
            write_day(day, clients, events)
            _split(day)
        first, *others = [(count, _measure(scratch / str(count), day, count)) for count in workers]
        for count, rate in others:
            print(f"{count} workers take {rate / first[1]:.2f} times the events of {first[0]}", flush=True)


def _split(day: Path) -> None:
    """Give each file several row groups, of which each can be a task of its own."""
    for path in day.glob("*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=TASK_ROWS)


def _measure(scratch: Path, day: Path, workers: int) -> float:
    """Return events per second; the driver is a process of its own."""
    scratch.mkdir()
    with (
        spark_cluster(scratch, workers, are_pinned=True) as cluster,
        multiprocessing.get_context("spawn").Pool(1) as driver,
    ):
        return driver.apply(_drive, (cluster, scratch, day))


def _drive(cluster: Cluster, scratch: Path, day: Path) -> float:
    from pipeline import session, sources
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse

    os.environ.update(cluster.environment)
    workers = len(cluster.workers)
    settings = dict(each.split("=", 1) for each in cluster.settings)
    settings["spark.sql.shuffle.partitions"] = str(2 * workers)
    spark = session.open_session(cluster.master, settings=settings)
    events = sources.files(spark, str(day))
    spent = []
    for name, raw in (("warm", events.where(f"offset < {WARM_ROWS}")), ("measured", events)):
        began, pipeline = time.perf_counter(), Pipeline(Warehouse(spark, str(scratch / name)))
        pipeline.add(raw)
        pipeline.make_days()
        spent.append((pipeline.rows, time.perf_counter() - began))
    (warm_rows, warm_s), (rows, seconds) = spent
    print(
        f"{workers} workers: {rows:,} events in {seconds:.1f} s ({rows / seconds:,.0f}/s), after "
        f"{warm_rows:,} in {warm_s:.1f} s",
        flush=True,
    )
    spark.stop()
    return rows / seconds


if __name__ == "__main__":
    main()
