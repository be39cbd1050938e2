"""Transactions per second beside Kafka: `python -m benchmarks.transactions`.

Ten librdkafka producers, each with a transactional id of its own, commit 100 records of 100 B at a time. Each
broker runs alone, in turns; the client needs a part of the machine, the same for both. Needs what
`make bench` needs for Kafka.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.install import install_kafka, install_weir
from benchmarks.peers import PEERS
from benchmarks.process import running

TOPIC: Final = "transactions"
PARTITIONS: Final = 8
RECORDS: Final = 100
VALUE: Final = bytes(100)
PATIENCE_S: Final = 30.0
WARM_UP_S: Final = 4.0


class Turn(NamedTuple):
    """Transactions per second, their median and p99 from begin to commit in ms, and the broker's processor
    time for each in us.
    """

    rate: float
    median_ms: float
    p99_ms: float
    cpu_us: float


def load(port: int, producers: int, seconds: float) -> None:
    """Print the durations of the transactions that began after the warm-up, in ms, as JSON."""
    took: list[list[float]] = [[] for _ in range(producers)]
    begin = time.monotonic() + WARM_UP_S
    threads = [
        threading.Thread(target=_produce, args=(port, number, begin, begin + seconds, took[number]))
        for number in range(producers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps([each for some in took for each in some]))


def _produce(port: int, number: int, begin: float, end: float, took: list[float]) -> None:
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "transactional.id": f"load-{number}", "linger.ms": 0}
    )
    producer.init_transactions(PATIENCE_S)
    while (started := time.monotonic()) < end:
        producer.begin_transaction()
        for record in range(RECORDS):
            producer.produce(TOPIC, VALUE, partition=(number + record) % PARTITIONS)
        producer.commit_transaction(PATIENCE_S)
        if started >= begin:
            took.append((time.monotonic() - started) * 1000)


def turn(name: str, producers: int, seconds: float) -> Turn:
    with (
        tempfile.TemporaryDirectory(prefix="weir-transactions-") as scratch,
        running(PEERS[name], Path(scratch)) as broker,
    ):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
        before = broker.cpu_s()
        command = (sys.executable, "-m", "benchmarks.transactions", "--port", str(broker.port))
        options = (f"--producers={producers}", f"--seconds={seconds}")
        done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
        used = broker.cpu_s() - before
    took = sorted(json.loads(done.stdout))
    share = seconds / (seconds + WARM_UP_S)
    return Turn(
        len(took) / seconds,
        statistics.median(took),
        took[len(took) * 99 // 100],
        used * share / len(took) * 1e6,
    )


@click.command()
@click.option("--producers", default=10, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=8.0, show_default=True, help="Counted seconds of a turn.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--port", hidden=True, type=int)
def main(producers: int, seconds: float, rounds: int, port: int | None) -> None:
    """Print a row for each broker."""
    if port is not None:
        load(port, producers, seconds)
        return
    install_kafka()
    install_weir()
    turns: dict[str, list[Turn]] = {"weir": [], "kafka": []}
    order = list(turns)
    for _ in range(rounds):
        for name in order:
            turns[name].append(turn(name, producers, seconds))
        order.reverse()
    click.echo("| broker | transactions/s | median ms | p99 ms | processor us per transaction |")
    click.echo("| --- | --- | --- | --- | --- |")
    for name, some in turns.items():
        rate, median_ms, p99_ms, cpu_us = (statistics.median(each) for each in zip(*some, strict=True))
        title = PEERS[name].title
        click.echo(f"| {title} | {rate:,.0f} | {median_ms:.1f} | {p99_ms:.1f} | {cpu_us:,.0f} |")


if __name__ == "__main__":
    main()
