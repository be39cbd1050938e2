"""The cost of small batches: `python -m benchmarks.pipeline_small_batch`.

Batches of a few events of every kind, one after the other, as a continuous stream takes them: with plans that
are interpreted or compiled, and with and without Spark's adaptive execution. Then the cost of a trigger that
finds no event. Each in a process of its own. Needs what benchmarks.pipeline needs.
"""

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.descendants import Watched, processor_s
from benchmarks.pipeline import OPEN_BROKER, WEIR, broker
from benchmarks.pipeline_day import write_day
from benchmarks.pipeline_full_day import Turn, batch_of, rows_of

BATCH_S: Final = 20
"""Seconds of a batch's events."""

ADAPTIVE: Final = "spark.sql.adaptive.enabled"

SETTLES_S: Final = 20

SILENT: Final = ("events.topics=", "log.retention.ms=-1")
"""The broker records no events of the pipeline's own requests."""


@click.command()
@click.option("--events", multiple=True, default=(1_000, 20_000), show_default=True, type=click.IntRange(100))
@click.option("--clients", default=200, show_default=True)
@click.option("--warm", default=3, show_default=True, help="Batches before the first that is timed.")
@click.option("--timed", default=5, show_default=True)
@click.option("--idle", default=60, show_default=True, help="Seconds of a stream without events.")
@click.option("--memory", default="1g", show_default=True)
def main(events: tuple[int, ...], clients: int, warm: int, timed: int, idle: int, memory: str) -> None:
    """Measure small batches."""
    ways = {"interpreted": (sys.maxsize, False), "compiled": (0, False), "compiled, adaptive": (0, True)}
    for each in events:
        for name, way in ways.items():
            with tempfile.TemporaryDirectory(prefix="weir-small-") as folder:
                turn = _in_a_process(_batches, Path(folder), each, clients, warm, timed, memory, *way)
            print(f"a batch of {each:,} events, {name}: {turn}", flush=True)
    if idle:
        with tempfile.TemporaryDirectory(prefix="weir-small-") as folder:
            print(_idle(Path(folder), idle, memory), flush=True)


def _in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def _batches(
    scratch: Path, events: int, clients: int, warm: int, timed: int, memory: str, most: int, is_adaptive: bool
) -> Turn:
    from pipeline import session
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse

    batches = warm + timed
    write_day(scratch / "batches", clients, batches * events, seconds=batches * BATCH_S)
    spark = session.open_session("local[2]", memory=memory, settings={ADAPTIVE: str(is_adaptive).lower()})
    pipeline = Pipeline(Warehouse(spark, str(scratch / "warehouse")), max_interpreted=most)
    counts, turns = rows_of(scratch / "batches"), []
    for number in range(batches):
        rows = batch_of(spark, scratch / "batches", counts, number, batches)
        used, began = processor_s(), time.perf_counter()
        pipeline.take(rows, number)
        turns.append(Turn(time.perf_counter() - began, processor_s() - used))
    spark.stop()
    kept = turns[warm:]
    return Turn(
        statistics.median(each.seconds for each in kept), statistics.median(each.processor_s for each in kept)
    )


def _idle(scratch: Path, seconds: int, memory: str) -> str:
    """Return the processor time of a stream that looks for events every second and finds none."""
    with broker(scratch / "broker", sys.executable, "-c", OPEN_BROKER, overrides=SILENT) as address:
        _create_topics(address)
        where = ("--bootstrap", address, "--warehouse", str(scratch / "warehouse"), "--memory", memory)
        run = ("run", "--continuous", "--every", "1", "--master", "local[2]")
        command = [str(WEIR), "pipeline", *run, *where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            next(line for line in process.stdout if line.startswith("From "))
            with Watched(process.pid).watching() as watched:
                time.sleep(SETTLES_S)
                before = watched.cpu_s
                time.sleep(seconds)
                spent = watched.cpu_s - before
            process.terminate()
    return f"a trigger without events, once a second: {spent / seconds:.2f} s of processor time"


def _create_topics(address: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from pipeline.formats import TELEMETRY, VALUES

    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, 8, 1) for name in (*VALUES, TELEMETRY)]).values():
        future.result()


if __name__ == "__main__":
    main()
