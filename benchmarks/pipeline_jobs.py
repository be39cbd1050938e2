"""The jobs of small batches and their cost: `python -m benchmarks.pipeline_jobs`.

Batches of a hundred events of every kind, pushes among them, one after the other in one process, as a
continuous stream takes them every ten seconds. Each batch prints its jobs, executions of SQL, tasks, and the
processor seconds of Spark and Python. `--trace` lists the jobs of the last batch by Spark's and Delta's
descriptions; its log of events costs processor time itself. Needs what benchmarks.pipeline needs.
"""

import contextlib
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.descendants import TICKS, family, processor_s
from benchmarks.otlp import rdkafka_push
from benchmarks.pipeline_day import DAY, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_S: Final = 10
"""Seconds of a batch's events."""

SHARES: Final = {
    "__weir_requests": 0.6,
    "__weir_throttles": 0.1,
    "__weir_connections": 0.1,
    "__weir_quota_changes": 0.05,
    "__weir_transactions": 0.05,
    "__weir_client_telemetry": 0.1,
}

INSTANCE: Final = "AAAAAAAAAAAAAAAAAAAAA{}"


@click.command()
@click.option("--events", default=100, show_default=True, type=click.IntRange(20))
@click.option("--warm", default=12, show_default=True, help="Batches before the first that counts.")
@click.option("--timed", default=6, show_default=True)
@click.option("--memory", default="1g", show_default=True)
@click.option("--trace", is_flag=True, help="List the jobs of the last batch.")
@click.option("--topic", multiple=True, help="Only events of these topics.")
@click.option("--spark", "spark_settings", multiple=True, help="A setting of Spark, KEY=VALUE.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the warehouse in this folder.")
def main(
    events: int,
    warm: int,
    timed: int,
    memory: str,
    trace: bool,
    topic: tuple[str, ...],
    spark_settings: tuple[str, ...],
    keep: Path | None,
) -> None:
    """Measure batches of a few events of every kind."""
    from pipeline import session, sources
    from pipeline.run import Pipeline
    from pipeline.tables import Warehouse

    with tempfile.TemporaryDirectory(prefix="weir-jobs-") as folder:
        scratch = Path(folder)
        shares = {name: share for name, share in SHARES.items() if not topic or name in topic}
        batches = warm + timed
        for number, rows in enumerate(_batches(events, batches, shares)):
            pq.write_table(rows, scratch / f"{number}.parquet")
        log = scratch / "log"
        log.mkdir()
        settings = dict(each.split("=", 1) for each in spark_settings) | (_traced(log) if trace else {})
        spark = session.open_session("local[2]", memory=memory, settings=settings)
        pipeline = Pipeline(Warehouse(spark, str(keep or scratch / "warehouse")))
        kept: list[tuple[float, ...]] = []
        times: list[tuple[float, float]] = []
        for number in range(batches):
            path = str(scratch / f"{number}.parquet")
            rows = sources.raw_of(spark.read.schema(sources.RAW).parquet(path))
            before, parts, used, began = _counts(spark), _parts_s(), processor_s(), time.time()
            pipeline.take(rows, number)
            ended = time.time()
            times.append((began * 1000, ended * 1000))
            spent = processor_s() - used
            of = {name: seconds - parts.get(name, 0.0) for name, seconds in _parts_s().items()}
            jobs, executions, tasks = (b - a for a, b in zip(before, _counts(spark), strict=True))
            print(
                f"batch {number}: {jobs} jobs, {executions} executions, {tasks} tasks, "
                f"processor time {spent:.1f} s ({', '.join(f'{n} {s:.1f}' for n, s in of.items())}), "
                f"{ended - began:.1f} s",
                flush=True,
            )
            if number >= warm:
                kept.append((jobs, executions, tasks, spent, ended - began))
        spark.stop()
        medians = [statistics.median(each) for each in zip(*kept, strict=True)]
        print(
            "median: {:.0f} jobs, {:.0f} executions, {:.0f} tasks, processor time {:.2f} s, {:.2f} s".format(
                *medians
            )
        )
        if trace:
            for line in _told(log, *times[-1]):
                print(line)


def _traced(log: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def _counts(spark: "SparkSession") -> tuple[int, int, int]:
    """Return the jobs, executions of SQL and tasks of all time."""
    context: Any = spark._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store: Any = spark._jsparkSession.sharedState().statusStore()
    newest = store.executionsList().lastOption()
    executions = newest.get().executionId() + 1 if newest.isDefined() else 0
    return context.dagScheduler().numTotalJobs(), executions, context.taskScheduler().nextTaskId()


def _parts_s() -> dict[str, float]:
    """Return the processor seconds of Python and of the JVM's compilers, collectors and other threads."""
    found = {"Python": 0.0, "Java's compilers": 0.0, "its collectors": 0.0, "its other threads": 0.0}
    for pid in family(os.getpid()):
        for task in Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                head, _, rest = task.read_text().rpartition(")")
                name, fields = head.partition("(")[2], rest.split()
                if Path(f"/proc/{pid}/comm").read_text().strip() != "java":
                    part = "Python"
                elif "Compiler" in name:
                    part = "Java's compilers"
                else:
                    part = "its collectors" if "GC" in name else "its other threads"
                found[part] += (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _told(log: Path, began_ms: float, ended_ms: float) -> Iterator[str]:
    """Yield lines with the jobs and the executions of SQL between two times, by description."""
    (path,) = (each for each in log.iterdir() if each.is_file() and not each.name.startswith("."))
    jobs: Counter[str] = Counter()
    millis: Counter[str] = Counter()
    begun: dict[int, tuple[str, float]] = {}
    executions: Counter[str] = Counter()
    names: dict[str, str] = {}
    for line in path.open(encoding="utf-8"):
        event = json.loads(line)
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart":
            names[str(event["executionId"])] = _first(event["description"])
            if began_ms <= event["time"] <= ended_ms:
                executions[_first(event["description"])] += 1
        elif kind == "SparkListenerJobStart" and began_ms <= event["Submission Time"] <= ended_ms:
            properties = event.get("Properties") or {}
            what = _first(properties.get("spark.job.description") or properties.get("callSite.short") or "?")
            of = names.get(properties.get("spark.sql.execution.id", ""), "no execution")
            name = (
                f"{what} | {of} | {properties.get('callSite.short', '?')} | {len(event['Stage IDs'])} stages"
            )
            jobs[name] += 1
            begun[event["Job ID"]] = name, event["Submission Time"]
        elif kind == "SparkListenerJobEnd" and event["Job ID"] in begun:
            name, since = begun.pop(event["Job ID"])
            millis[name] += event["Completion Time"] - since
    yield f"{sum(jobs.values())} jobs:"
    for name, count in jobs.most_common():
        yield f"  {count:3} {millis[name]:6} ms  {name}"
    yield f"{sum(executions.values())} executions:"
    for name, count in executions.most_common():
        yield f"  {count:3}  {name}"


def _first(text: str) -> str:
    return " ".join(text.split())[:160]


def _batches(events: int, batches: int, shares: dict[str, float]) -> Iterator[pa.Table]:
    dice = random.Random(7)
    offsets = dict.fromkeys(shares, 0)
    for number in range(batches):
        rows = []
        for topic, share in shares.items():
            for _ in range(max(1, round(events * share))):
                second = number * BATCH_S + dice.randrange(1, BATCH_S)
                rows.append(_row(dice, topic, offsets[topic], second))
                offsets[topic] += 1
        yield pa.Table.from_pylist(rows, SCHEMA)


def _row(dice: random.Random, topic: str, offset: int, second: int) -> dict[str, Any]:
    at = DAY + timedelta(hours=12, seconds=second)
    time_ms = round(at.timestamp() * 1000)
    client = dice.randrange(20)
    headers = [("node", b"1"), ("cluster", b"c")]
    if topic == "__weir_client_telemetry":
        value = rdkafka_push(dice, client, time_ms * 1_000_000)
        headers += [(name, text.encode()) for name, text in _sender(client).items()]
    else:
        value = json.dumps({"v": 1, "time_ms": time_ms} | _fields(dice, topic, client, offset)).encode()
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": at + timedelta(seconds=1),
        "value": value,
        "headers": headers,
    }


def _sender(client: int) -> dict[str, str]:
    return {
        "v": "1",
        "client_instance_id": INSTANCE.format(chr(65 + client)),
        "client_id": f"client-{client}",
        "principal": f"user-{client % 3}",
        "address": "10.0.0.1",
        "software_name": "librdkafka",
        "software_version": "2.16.0",
        "compression": "none",
        "subscription_id": "-7",
        "terminating": "false",
    }


def _fields(dice: random.Random, topic: str, client: int, number: int) -> dict[str, Any]:
    who = {"principal": f"user-{client % 3}", "client_id": f"client-{client}"}
    place = {"listener": "PLAINTEXT", "address": "10.0.0.1"}
    match topic:
        case "__weir_requests":
            return {
                "source": "client",
                **who,
                "api": ("Produce", "FetchConsumer", "Metadata")[number % 3],
                "requests": 3,
                "bytes_in": dice.randrange(9_000),
                "bytes_out": 300,
                "throttle_ms": 0,
                "errors": {},
                "timed": 2,
                "phases": {"local": [[10, 2]], "total": [[30, 2]]},
            }
        case "__weir_throttles":
            return {
                "kind": "produce",
                "entity": {"user": who["principal"]},
                **who,
                "connection": "c",
                **place,
                "observed": 2.0,
                "bound": 1.0,
                "count": 1,
                "throttle_ms": 100,
                "longest_ms": 100,
            }
        case "__weir_connections":
            if number % 2:
                return {"event": "opened", **place, "count": 2}
            software = {"software_name": "librdkafka", "software_version": "2.16.0"}
            moved = {"requests": 9, "bytes_in": 90, "bytes_out": 80, "lived_ms": 60}
            return {"event": "closed", **place, "count": 1, **who, **software, **moved}
        case "__weir_quota_changes":
            return {
                "key": "producer_byte_rate",
                "old": None,
                "new": 500.0 + number,
                "actor": "op",
                "role": "admin",
                "door": "rest",
                "version": number,
                "entity": {"user": who["principal"]},
            }
    return {
        "event": "aborted",
        "reason": "timed_out",
        "transactional_id": "t",
        "producer_id": 7,
        "producer_epoch": 1,
        **who,
        "address": "10.0.0.1",
        "timeout_ms": 60_000,
        "started_ms": round(DAY.timestamp() * 1000),
        "open_ms": 60_100,
        "partition_count": 2,
        "partitions": {"orders": [0, 3]},
    }


if __name__ == "__main__":
    main()
