"""The loads, and the factor of Kafka's result that Weir is to reach.

Used by benchmarks.run (to measure one load) and benchmarks.report (titles, units, goals). Depends on a
port, not on a broker. MB are 10^6 bytes of record batches as on the wire; with librdkafka, of record
values.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.install import LOAD_PROGRAM

REQUESTS: Final = "requests_per_second"
MEGABYTES: Final = "megabytes_per_second"
UNITS: Final = {REQUESTS: "req/s", MEGABYTES: "MB/s"}

MAX_BYTES: Final = 2_000_000_000  # counted bytes; a load ends before it measures the kernel's write-back
FILL_CONNECTIONS: Final = 8
FILL_LIMIT_S: Final = 120
CLIENT_RECORDS: Final = 600_000
ADMIN_LIMIT_S: Final = 30
SETTLE_S: Final = 1.0  # Kafka confirms a new topic before its broker has it
SLACK_S: Final = 60.0  # beyond warm-up and counted time; then the load fails


class LoadError(Exception):
    """A response was an error, was wrong or did not arrive; the message is the load program's."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Identical record batches: `records` values of `record_bytes` bytes; a filled topic has `count` of
    them.
    """

    records: int
    record_bytes: int
    count: int = 0

    def arguments(self) -> list[str]:
        return [f"--records={self.records}", f"--record-bytes={self.record_bytes}"]


@dataclass(frozen=True, slots=True)
class Load:
    """A load. `ask` is the load program's first argument, or `client_...` for benchmarks.client.

    `goal` is the factor of Kafka's result to reach.
    """

    name: str
    title: str
    ask: str
    measure: str
    goal: float
    connections: int = 1
    batches: Batches | None = None
    options: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return "produce" in self.ask


SMALL: Final = Batches(1, 100)
PAGES: Final = Batches(16, 1000)
PAGES_TO_FETCH: Final = Batches(
    16, 1000, count=16384
)  # 16,189 bytes each: four of them are a response of 64 kB
MEGABYTE: Final = Batches(1000, 1000)
MEGABYTE_OF_10K: Final = Batches(100, 10_000)
RECORDS_TO_FETCH: Final = Batches(100, 1000, count=CLIENT_RECORDS // 100)

_ALL: Final = (
    Load("api_versions", "ApiVersions, 100 connections", "api_versions", REQUESTS, 1.5, 100),
    Load("metadata", "Metadata of one topic, 100 connections", "metadata", REQUESTS, 1.0, 100),
    Load("produce_100b", "Produce, 1 record of 100 B, 100 connections", "produce", REQUESTS, 0.8, 100, SMALL),
    Load("produce_16k", "Produce, 16 records of 1 kB, 10 connections", "produce", MEGABYTES, 1.3, 10, PAGES),
    Load("produce_1m", "Produce, 1 MB batches, 4 connections", "produce", MEGABYTES, 1.5, 4, MEGABYTE),
    Load(
        "produce_1m_all",
        "Produce, 1 MB batches of 10 kB, acks=all, 4 connections",
        "produce",
        MEGABYTES,
        1.0,
        4,
        MEGABYTE_OF_10K,
        ("--acks=-1",),
    ),
    Load(
        "fetch_1m",
        "Fetch 1 MB, 4 connections",
        "fetch",
        MEGABYTES,
        0.6,
        4,
        PAGES_TO_FETCH,
        ("--fetch-bytes=1048576",),
    ),
    Load(
        "fetch_64k",
        "Fetch 64 kB, 20 connections",
        "fetch",
        REQUESTS,
        0.6,
        20,
        PAGES_TO_FETCH,
        ("--fetch-bytes=65536",),
    ),
    Load("client_produce", "librdkafka through Python, produce 1 kB", "client_produce", MEGABYTES, 1.4),
    Load(
        "client_fetch",
        "librdkafka through Python, fetch 1 kB",
        "client_fetch",
        MEGABYTES,
        1.4,
        batches=RECORDS_TO_FETCH,
    ),
)
LOADS: Final = {load.name: load for load in _ALL}


@contextmanager
def prepared(load: Load, port: int) -> Iterator[str]:
    """Create a topic of one partition, filled if the load needs it, and delete it after a successful block.

    The deletion keeps the next load free of these bytes. Raises LoadError.
    """
    topic = f"load-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 2})
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ADMIN_LIMIT_S)
        time.sleep(SETTLE_S)
        if load.batches is not None and load.batches.count:
            _fill(port, topic, load.batches)
        yield topic
        admin.delete_topics([topic])[topic].result(ADMIN_LIMIT_S)
    except (KafkaException, TimeoutError) as error:
        raise LoadError(f"topic {topic}: {error}") from error


def measure(load: Load, port: int, topic: str, *, seconds: float, warm_up_s: float) -> dict[str, Any]:
    """Run one load against the broker on `port` and return the program's result. Raises LoadError."""
    if load.ask.startswith("client_"):
        command = [sys.executable, "-m", "benchmarks.client", load.ask, str(port), topic, str(CLIENT_RECORDS)]
    else:
        command = _load_command(
            load.ask,
            port,
            topic,
            f"--connections={load.connections}",
            f"--max-bytes={MAX_BYTES}",
            f"--seconds={seconds}",
            f"--warm-up={warm_up_s}",
            *load.options,
        )
        if load.batches is not None:
            command += [*load.batches.arguments(), f"--batches={load.batches.count}"]
    return _run(command, limit_s=seconds + warm_up_s + SLACK_S)


def _load_command(ask: str, port: int, topic: str, *options: str) -> list[str]:
    return [str(LOAD_PROGRAM), ask, f"--port={port}", f"--topic={topic}", *options]


def _fill(port: int, topic: str, batches: Batches) -> None:
    each = batches.count // FILL_CONNECTIONS
    command = _load_command(
        "produce",
        port,
        topic,
        f"--connections={FILL_CONNECTIONS}",
        f"--batches={each}",
        f"--seconds={FILL_LIMIT_S}",
        "--warm-up=0",
        *batches.arguments(),
    )
    written = _run(command, limit_s=FILL_LIMIT_S + SLACK_S)["requests"]
    if written != batches.count:
        raise LoadError(f"wrote {written} batches to fill the topic, expected {batches.count}")


def _run(command: list[str], *, limit_s: float) -> dict[str, Any]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise LoadError(f"not done within {limit_s:.0f} s") from late
    if done.returncode != 0:
        raise LoadError(done.stderr.strip()[-500:] or f"exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
