"""How long the console takes to show records of a large topic: `python -m benchmarks.browse_records`.

Starts a broker, produces records of a kilobyte with increasing times to 12 partitions, and asks its REST API
for 50 records from random times on, the latest 50, and for a text that is not there. Prints the median and
the longest time of each. Run it alone on the machine.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.broker_process import TOKEN, BrokerProcess

TOPIC: Final = "records"
PARTITIONS: Final = 12
RECORD: Final = 1_000
BEGIN_MS: Final = 1_700_000_000_000
TIMES: Final = 40


def produce(bootstrap: str, count: int, codec: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": codec}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result()
    producer = Producer(settings)
    filler = os.urandom(RECORD * 4)
    for number in range(count):
        value = b"%012d" % number + filler[number % 3_000 :][: RECORD - 12]
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS, timestamp=BEGIN_MS + number)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()


def timed(connection: http.client.HTTPConnection, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Return the milliseconds of one request and its answer."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    begun = time.perf_counter()
    connection.request("POST", f"/api/v1/topics/{TOPIC}/records:browse", json.dumps(body), headers)
    text = connection.getresponse().read()
    return (time.perf_counter() - begun) * 1_000, json.loads(text)


def measure(console: str, count: int) -> None:
    connection = http.client.HTTPConnection(console, timeout=60)
    chance = random.Random(4711)

    def at_random() -> dict[str, Any]:
        return {"from": {"timestamp_ms": BEGIN_MS + chance.randrange(count)}, "limit": 50}

    questions: dict[str, tuple[Callable[[], dict[str, Any]], int]] = {
        "50 records from a time on": (at_random, TIMES),
        "500 records from a time on": (lambda: at_random() | {"limit": 500}, TIMES),
        "the latest 50 records": (lambda: {"from": {"latest": 50}, "limit": 50}, TIMES),
        "a text that is not there, from the earliest": (
            lambda: {"from": {"earliest": True}, "contains": "not there"},
            5,
        ),
    }
    for name, (question, times) in questions.items():
        taken, answers = zip(*(timed(connection, question()) for _ in range(times)), strict=True)
        last = answers[-1]
        print(
            f"| {name} | {statistics.median(taken):.0f} ms, {max(taken):.0f} ms | "
            f"{last['read_bytes'] / 1e6:.1f} MB | {last['stopped']} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--codec", default="none")
    given = parser.parse_args()
    count = int(given.gigabytes * 1e9) // RECORD
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        begun = time.perf_counter()
        produce(broker.plain, count, given.codec)
        print(
            f"{count} records, codec {given.codec}, produced in {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
        measure(broker.console, count)


if __name__ == "__main__":
    main()
