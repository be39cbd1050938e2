"""The pipeline's throughput, latency and memory: `python -m benchmarks.pipeline`.

Three parts run `weir pipeline` as users start it, with Spark in local[2]: a day of 1,000 clients from files;
busy minutes of such clients from the topics of a broker; and the time from a client's request to its row in
gold while the pipeline runs. The fourth compares a batch on a full day with one on an empty day. Memory is
the sum of all processes of a run, including Python's.
Needs requirements/pipeline.txt (make test-pipeline installs it), Java 17, and the jars (make jars).
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks import pipeline_full_day
from benchmarks.descendants import Watched
from benchmarks.pipeline_day import write_day
from benchmarks.process import busy_s

WEIR: Final = Path(sys.executable).with_name("weir")
LOOKS_EVERY_S: Final = 0.25

OPEN_BROKER: Final = """
from broker.metadata import image
image.OUR_TOPICS = "\\0"
from broker.__main__ import main
main()
"""
"""A broker that lets clients write to the event topics, so that they can have more events than a broker
writes.
"""


@dataclass(frozen=True, slots=True)
class Told:
    """The cost of one run. `others` is the share of the machine's processor time used by other processes."""

    seconds: float
    watched: Watched
    others: float
    lines: list[str]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in sorted(self.watched.peaks.items()))
        return (
            f"{self.seconds:.1f} s, processor time {self.watched.cpu_s:.1f} s, "
            f"peak memory {self.watched.peak / 1e6:,.0f} MB ({parts}), "
            f"other processes used {self.others:.0%} of the cores"
        )


def run_weir(*arguments: str) -> Told:
    """Run `weir` until it ends. Raises CalledProcessError with its last output on stderr."""
    busy, began = busy_s(), time.perf_counter()
    lines: list[str] = []
    process = subprocess.Popen([WEIR, "pipeline", *arguments], stdout=subprocess.PIPE, text=True)
    with Watched(process.pid).watching() as watched:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            print(f"    {lines[-1]}", flush=True)
        process.wait()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise click.ClickException(f"weir pipeline {arguments[0]} ended with {process.returncode}")
    others = (busy_s() - busy - watched.cpu_s) / (seconds * (os.cpu_count() or 1))
    return Told(seconds, watched, max(others, 0.0), lines)


def _on(warehouse: Path, memory: str) -> list[str]:
    return ["--warehouse", str(warehouse), "--master", "local[2]", "--memory", memory]


def a_day(scratch: Path, clients: int, events: int, memory: str) -> None:
    """Measure from files to gold."""
    began = time.perf_counter()
    nbytes = write_day(scratch / "day", clients, events)
    print(f"a day of {clients:,} clients: {events:,} events, {nbytes / 1e6:,.0f} MB of values, "
          f"made in {time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
    told = run_weir("backfill", str(scratch / "day"), *_on(scratch / "warehouse", memory))
    print(f"  {told}")
    print(f"  {_rates(events, nbytes, told)} (goals: 50,000 events/s, 2,500 MB)", flush=True)


@contextlib.contextmanager
def broker(scratch: Path, *command: str, overrides: Sequence[str] = ()) -> Iterator[str]:
    """Start a broker and yield its address."""
    where = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={scratch}", "console.listener=127.0.0.1:0")
    settings = (*where, *overrides)
    process = subprocess.Popen(
        [*command, "serve", *(f"--override={each}" for each in settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    greeting = process.stdout.readline()
    found = re.search(r"127\.0\.0\.1:\d+", greeting)
    if not found:
        raise click.ClickException(f"the broker ended with {process.wait()}")
    address = found[0]
    threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def fill(address: str, folder: Path) -> int:
    """Copy the files' records into the topics of a writable broker; return the number of records."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    count = 0
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(50_000, columns=["topic", "timestamp", "value"]):
            topics, times, values = (batch.column(name) for name in ("topic", "timestamp", "value"))
            topic = topics[0].as_py()
            for at, value in zip(times.cast("int64").to_pylist(), values.to_pylist(), strict=True):
                producer.produce(topic, value, timestamp=at // 1000, headers=[("node", b"1")])
            producer.poll(0)
            if producer.flush(60):
                raise click.ClickException("the broker does not accept the events")
            count += len(batch)
    return count


def a_stream(scratch: Path, clients: int, events: int, memory: str) -> None:
    """Measure from topics to gold, at the density of a busy cluster: some three events per second and
    client.
    """
    nbytes = write_day(scratch / "for-topics", clients, events, seconds=max(60, events // (3 * clients)))
    # The day is in the past and must not expire.
    kept = ("log.retention.ms=-1",)
    with broker(scratch / "filled", sys.executable, "-c", OPEN_BROKER, overrides=kept) as address:
        count = fill(address, scratch / "for-topics")
        print(f"a stream of {count:,} events, {nbytes / 1e6:,.0f} MB of values, from topics", flush=True)
        told = run_weir("run", "--once", "--bootstrap", address, *_on(scratch / "streamed", memory))
    print(f"  {told}")
    print(f"  {_rates(count, nbytes, told)} (goal: 40,000 events/s once warm, 2,500 MB)", flush=True)


def _rates(events: int, nbytes: int, told: Told) -> str:
    """Return the rates from the start of the process to its end."""
    return f"{events / told.seconds:,.0f} events/s, {nbytes / told.seconds / 1e6:.1f} MB/s in total"


def a_wait(scratch: Path, tries: int, every: int, memory: str) -> None:
    """Measure from a client's first request to its row in gold, and to the row of its pushed metrics."""
    gold = scratch / "waited/gold"
    with broker(scratch / "waiting", str(WEIR)) as address:
        _subscribe(address)
        _ask(address, "first")
        on = _on(gold.parent, memory)
        run = ("run", "--continuous", "--every", str(every), "--bootstrap", address)
        process = subprocess.Popen([WEIR, "pipeline", *run, *on])
        try:
            with Watched(process.pid).watching() as watched:
                started_s = _wait_for(address, "first", gold / "usage_per_minute", process)
                print(f"from the start of Spark to the first row: {started_s:.0f} s", flush=True)
                for table, goal_s in (("usage_per_minute", 15), ("client_metrics_per_minute", 20)):
                    names = [f"{table}-{at}" for at in range(tries)]
                    waits = [_wait_for(address, name, gold / table, process) for name in names]
                    told = ", ".join(f"{each:.0f}" for each in waits)
                    print(f"from a client's first request to its row in {table}: {told} s (goal: {goal_s} s)")
        finally:
            process.terminate()
            process.wait(60)
    print(f"  peak memory {watched.peak / 1e6:,.0f} MB, processor time {watched.cpu_s:.1f} s", flush=True)


def _subscribe(address: str) -> None:
    """Subscribe clients to push all their metrics every second."""
    # Not at the top: the import emits a warning, and tests import this module.
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=address)
    wanted = {"metrics": "*", "interval.ms": "1000"}
    admin.alter_configs([ConfigResource(ConfigResourceType.CLIENT_METRICS, "all", wanted)])
    admin.close()


def _wait_for(address: str, name: str, table: Path, process: subprocess.Popen[bytes]) -> float:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    began, seen = time.monotonic(), 0
    _ask(address, name)
    while time.monotonic() - began < 600:
        if process.poll() is not None:
            raise click.ClickException(f"weir pipeline run ended with {process.returncode}")
        # Reading the table at each look takes a fifth of a core.
        commits = len(list((table / "_delta_log").glob("*.json")))
        if commits > seen:
            seen = commits
            with contextlib.suppress(TableNotFoundError):
                if name in DeltaTable(table).to_pyarrow_table(columns=["client_id"])["client_id"].to_pylist():
                    return time.monotonic() - began
        time.sleep(LOOKS_EVERY_S)
    raise click.ClickException(f"{name} did not reach gold within ten minutes")


def _ask(address: str, name: str) -> None:
    """Run a client for two seconds: long enough to push once, and once more at its end."""
    producer = Producer({"bootstrap.servers": address, "client.id": name})
    producer.produce("orders", b"one")
    if producer.flush(30):
        raise click.ClickException("the broker does not accept a record")
    time.sleep(2)


@click.command()
@click.option("--clients", default=1_000, show_default=True)
@click.option("--events", default=8_000_000, show_default=True, help="Events of the day.")
@click.option("--streamed", default=1_000_000, show_default=True, help="Events through topics.")
@click.option("--every", default=10, show_default=True, help="Seconds between batches while one waits.")
@click.option("--tries", default=4, show_default=True, help="Timed requests from client to gold.")
@click.option("--memory", default="1g", show_default=True, help="Heap of Spark's JVM.")
@click.option("--batch", default=1_000_000, show_default=True, help="Events of a batch on a full day.")
@click.option("--held", default=50_000_000, show_default=True, help="Events that the full day holds.")
@click.option("--parts", default="day,stream,wait,full", show_default=True)
def main(
    clients: int,
    events: int,
    streamed: int,
    every: int,
    tries: int,
    memory: str,
    batch: int,
    held: int,
    parts: str,
) -> None:
    """Measure the pipeline."""
    wanted = parts.split(",")
    with tempfile.TemporaryDirectory(prefix="weir-pipeline-") as folder:
        scratch = Path(folder)
        if "day" in wanted:
            a_day(scratch, clients, events, memory)
        if "stream" in wanted:
            a_stream(scratch, clients, streamed, memory)
        if "wait" in wanted:
            a_wait(scratch, tries, every, memory)
        if "full" in wanted:
            for line in pipeline_full_day.measure(scratch / "full", clients, batch, held, memory):
                print(line, flush=True)


if __name__ == "__main__":
    main()
