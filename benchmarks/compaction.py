"""What a client notices of a compaction: `python -m benchmarks.compaction`.

Fills one partition with records of 1 KB whose keys repeat, and lets a paced client produce to another topic
meanwhile: first alone, then while the log is compacted. The durations are those from a record's `produce` to
its acknowledgement, without linger. Broker and clients share the machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from benchmarks.install import WEIR_PROGRAM, install_weir
from benchmarks.peers import PEERS
from benchmarks.process import Broker, running

LOG: Final = "compacted"
PACED: Final = "paced"
PATIENCE_S: Final = 120.0
RECORD_BYTES: Final = 1_000


class Durations(NamedTuple):
    """Of acknowledged records, in ms."""

    records: int
    median: float
    p99: float
    worst: float

    def __str__(self) -> str:
        return f"{self.records:,} | {self.median:.2f} | {self.p99:.2f} | {self.worst:.1f}"


def paced(port: int, per_second: int) -> None:
    """Produce until a line comes in; print the durations since the last one, as JSON, for each line."""
    took: list[float] = []
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0, "log_level": 0})
    stopped = threading.Event()

    def answer() -> None:
        for _ in sys.stdin:
            some = took.copy()
            del took[: len(some)]
            print(json.dumps(some), flush=True)
        stopped.set()

    threading.Thread(target=answer).start()
    due = time.perf_counter()
    while not stopped.is_set():
        due += 1 / per_second
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        began = time.perf_counter()
        producer.produce(PACED, bytes(100), on_delivery=partial(_note, took, began))
        producer.poll(0)
    producer.flush(PATIENCE_S)


def _note(took: list[float], began: float, _error: object, _message: object) -> None:
    took.append((time.perf_counter() - began) * 1000)


def fill(port: int, megabytes: int, keys: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 65_536,
            "log_level": 0,
        }
    )
    value = bytes(RECORD_BYTES)
    for number in range(megabytes * 1_000_000 // RECORD_BYTES):
        while True:
            try:
                producer.produce(LOG, value, b"key-%d" % (number * 7_919 % keys))
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(PATIENCE_S):
        raise RuntimeError("not all records were acknowledged")


def measure(broker: Broker, megabytes: int, keys: int, per_second: int, seconds: float) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    config = {"cleanup.policy": "compact", "segment.bytes": "104857600", "min.cleanable.dirty.ratio": "1"}
    for each in admin.create_topics([NewTopic(LOG, 1, 1, config=config), NewTopic(PACED, 1, 1)]).values():
        each.result(PATIENCE_S)
    fill(broker.port, megabytes, keys)
    command = (sys.executable, "-m", "benchmarks.compaction", "--port", str(broker.port))
    with subprocess.Popen(
        (*command, f"--rate={per_second}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdin is not None and client.stdout is not None

        def window(length: float) -> list[float]:
            assert client.stdin is not None and client.stdout is not None
            time.sleep(length)
            client.stdin.write("\n")
            client.stdin.flush()
            found: list[float] = json.loads(client.stdout.readline())
            return found

        window(5)
        alone = window(seconds)
        entry = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, LOG, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        began, cpu = time.monotonic(), broker.cpu_s()
        while not _has_begun(broker):
            window(0.2)
        begun = time.monotonic()
        beside: list[float] = []
        while not (line := _report(broker)):
            beside += window(1)
        ended, cpu = time.monotonic(), broker.cpu_s() - cpu
        after = window(seconds)
        client.stdin.close()
    click.echo(f"{line}\ncompaction took about {ended - begun:.0f} s, after {begun - began:.0f} s of waiting")
    click.echo(f"broker: {cpu:.1f} s of processor time meanwhile")
    click.echo(
        "| records acknowledged | count | median ms | p99 ms | longest ms |\n| --- | --- | --- | --- | --- |"
    )
    for name, some in (("before", alone), ("while compacting", beside), ("after", after)):
        click.echo(f"| {name} | {_durations(some)} |")


def _has_begun(broker: Broker) -> bool:
    return any(broker.output.parent.rglob("*.cleaned")) or bool(_report(broker))


def _report(broker: Broker) -> str:
    lines = broker.output.read_text(errors="replace").splitlines()
    return next((line for line in lines if "compacted a log" in line and LOG in line), "")


def _durations(took: list[float]) -> Durations:
    some = sorted(took)
    return Durations(len(some), some[len(some) // 2], some[len(some) * 99 // 100], some[-1])


@click.command()
@click.option("--megabytes", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--keys", default=200_000, show_default=True, type=click.IntRange(1))
@click.option("--rate", default=500, show_default=True, help="Records of the paced client in a second.")
@click.option("--seconds", default=20.0, show_default=True, help="Before and after the compaction.")
@click.option("--port", hidden=True, type=int)
def main(megabytes: int, keys: int, rate: int, seconds: float, port: int | None) -> None:
    """Print the durations before, while and after a log is compacted."""
    if port is not None:
        paced(port, rate)
        return
    if "WEIR_PROGRAM" not in os.environ:
        install_weir()
        os.environ["WEIR_PROGRAM"] = str(WEIR_PROGRAM)
    with (
        tempfile.TemporaryDirectory(prefix="weir-compaction-") as scratch,
        running(PEERS["weir"], Path(scratch)) as broker,
    ):
        measure(broker, megabytes, keys, rate, seconds)


if __name__ == "__main__":
    main()
