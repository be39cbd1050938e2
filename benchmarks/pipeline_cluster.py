"""What a second worker brings: `python -m benchmarks.pipeline_cluster`.

The same events are read from files to gold by a cluster of Spark with one worker of one core, and by one with
two. Each worker keeps to a core; the driver shares them, and nothing else may: keep the machine silent. Needs
what benchmarks.pipeline needs.
"""

import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import click
import pyarrow.parquet as pq

from benchmarks.pipeline import WEIR
from benchmarks.pipeline_day import write_day
from benchmarks.spark_cluster import spark_cluster

TASK_ROWS: Final = 25_000


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
        for count, seconds in others:
            more = first[1] / seconds
            print(f"{count} workers take {more:.2f} times the events of {first[0]}", flush=True)


def _split(day: Path) -> None:
    """Give each file several row groups, of which each can be a task of its own."""
    for path in day.glob("*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=TASK_ROWS)


def _measure(scratch: Path, day: Path, workers: int) -> float:
    """Return the seconds that the backfill itself reports, without the start of Spark."""
    scratch.mkdir()
    with spark_cluster(scratch, workers, are_pinned=True) as cluster:
        began = time.perf_counter()
        done = subprocess.run(
            [
                *(WEIR, "pipeline", "backfill", day, "--master", cluster.master),
                *("--warehouse", scratch / "warehouse"),
                *(f"--spark={each}" for each in cluster.settings),
                f"--spark=spark.sql.shuffle.partitions={2 * workers}",
            ],
            env=cluster.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        whole = time.perf_counter() - began
    last = done.stdout.splitlines()[-1]
    print(f"{workers} workers, {whole:.1f} s with the start of Spark: {last}", flush=True)
    found = re.search(r"read in ([\d.]+) s", last)
    assert found is not None
    return float(found[1])


if __name__ == "__main__":
    main()
