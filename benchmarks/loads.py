"""The loads, and the factor of the best peer's result that Weir is to reach.

Used by benchmarks.run (to measure one load) and benchmarks.report (titles, units, goals). Depends on a
port, not on a broker. MB are 10^6 bytes of record batches as on the wire; with real clients, of
record values.
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.install import LOAD_PROGRAM
from benchmarks.memory import IDLE_BYTES

REQUESTS: Final = "requests_per_second"
MEGABYTES: Final = "megabytes_per_second"
UNITS: Final = {REQUESTS: "req/s", MEGABYTES: "MB/s"}

MAX_BYTES: Final = 2_000_000_000  # counted bytes; a load ends before it measures the kernel's write-back
MOST_BYTES_A_SECOND: Final = 1_000_000_000
MOST_REQUESTS_A_SECOND: Final = 100_000
FILL_CONNECTIONS: Final = 8
FILL_LIMIT_S: Final = 120
CLIENT_RECORDS: Final = 600_000
ADMIN_LIMIT_S: Final = 30
SETTLE_S: Final = 1.0  # Kafka confirms a new topic before its broker has it
AT_HALF_WARM_UP_S: Final = 0.5
PEAK_S: Final = 2.0  # in which a broker's rate is measured, before half of it is asked for
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
    """A load. `ask` is the load program's first argument, `client_...` for benchmarks.client,
    or `java_...` for benchmarks.java_client.

    The topic has `partitions`, and each Produce or Fetch names all of them, with one of `batches` in each.
    `goal` is the factor of the best peer's result to reach. `at_half`: requests are sent at half of the rate
    that this broker reaches, evenly over time; the result is the p99.
    """

    name: str
    title: str
    ask: str
    measure: str
    connections: int = 1
    batches: Batches | None = None
    options: tuple[str, ...] = ()
    partitions: int = 1
    tls: bool = False
    at_half: bool = False
    goal: float = 1.0

    @property
    def writes(self) -> bool:
        return "produce" in self.ask

    def transport(self) -> list[str]:
        return ["--tls"] if self.tls else []

    def takes(self, seconds: float, warm_up_s: float) -> int:
        """Return the most bytes of memory that the load makes its broker take, for records and heap."""
        if not self.writes:
            return IDLE_BYTES
        if self.at_half:
            seconds += PEAK_S
        most = (MAX_BYTES + warm_up_s * MOST_BYTES_A_SECOND) * (2 if self.at_half else 1)
        if self.batches is not None:
            request = self.batches.records * self.batches.record_bytes * self.partitions
            most = min(most, request * MOST_REQUESTS_A_SECOND * (seconds + warm_up_s))
        return IDLE_BYTES + int(most)


SMALL: Final = Batches(1, 100)
PAGES: Final = Batches(16, 1000)
# 16,189 bytes each: four of them are a response of 64 kB
PAGES_TO_FETCH: Final = Batches(16, 1000, count=16384)
PAGES_OF_EIGHT: Final = Batches(16, 1000, count=2048)
FOUR_KB: Final = Batches(4, 1000)
MEGABYTE: Final = Batches(1000, 1000)
MEGABYTE_OF_10K: Final = Batches(100, 10_000)
RECORDS_TO_FETCH: Final = Batches(100, 1000, count=CLIENT_RECORDS // 100)

AHEAD: Final = 1.2  # the goal where a broker does least for a request, and for the largest batches
ACKS_ALL: Final = "--acks=-1"


def _ask(name: str, title: str, ask: str, connections: int) -> Load:
    return Load(name, title, ask, REQUESTS, connections, goal=AHEAD)


def _produce(name: str, title: str, measure: str, connections: int, batches: Batches, *options: str) -> Load:
    return Load(name, f"Produce{title}", "produce", measure, connections, batches, options)


def _fetch(
    name: str, title: str, measure: str, connections: int, batches: Batches, size: int, *options: str
) -> Load:
    return Load(
        name, f"Fetch{title}", "fetch", measure, connections, batches, (f"--fetch-bytes={size}", *options)
    )


_SINGLE: Final = (
    _ask("api_versions_1", "ApiVersions, 1 connection", "api_versions", 1),
    _ask("api_versions", "ApiVersions, 100 connections", "api_versions", 100),
    _ask("api_versions_500", "ApiVersions, 500 connections", "api_versions", 500),
    _ask("metadata", "Metadata of one topic, 100 connections", "metadata", 100),
    _produce("produce_100b", ", 1 record of 100 B, 100 connections", REQUESTS, 100, SMALL),
    _produce("produce_16k", ", 16 records of 1 kB, 10 connections", MEGABYTES, 10, PAGES),
    _produce(
        "produce_16k_vary", ", 16 records of 0.5 to 1.5 kB, 10 connections", MEGABYTES, 10, PAGES, "--vary"
    ),
    replace(_produce("produce_1m", ", 1 MB batches, 4 connections", MEGABYTES, 4, MEGABYTE), goal=AHEAD),
    replace(
        _produce(
            "produce_1m_all",
            ", 1 MB batches of 10 kB, acks=all, 4 connections",
            MEGABYTES,
            4,
            MEGABYTE_OF_10K,
            ACKS_ALL,
        ),
        goal=AHEAD,
    ),
    _fetch("fetch_1m", " 1 MB, 4 connections", MEGABYTES, 4, PAGES_TO_FETCH, 1 << 20),
    _fetch("fetch_64k", " 64 kB, 20 connections", REQUESTS, 20, PAGES_TO_FETCH, 65536),
)

# What Java's clients send: one request for all partitions that have something.
_EIGHT: Final = (
    _produce("produce_8", " of 8 partitions, 1 record of 100 B each, 50 connections", REQUESTS, 50, SMALL),
    _produce(
        "produce_8_4k",
        " of 8 partitions, 4 records of 1 kB each, acks=all, 20 connections",
        REQUESTS,
        20,
        FOUR_KB,
        ACKS_ALL,
    ),
    _produce(
        "produce_8_idempotent",
        " of 8 partitions, 4 records of 1 kB each, idempotent, 20 connections",
        REQUESTS,
        20,
        FOUR_KB,
        ACKS_ALL,
        "--idempotent",
    ),
    _fetch("fetch_8", " of 8 partitions, 16 kB each, 20 connections", REQUESTS, 20, PAGES_OF_EIGHT, 16384),
    _fetch(
        "fetch_8_session",
        " of 8 partitions, 16 kB each, in a session, 20 connections",
        REQUESTS,
        20,
        PAGES_OF_EIGHT,
        16384,
        "--session",
    ),
)

_TLS: Final = (
    _produce("produce_16k_tls", ", 16 records of 1 kB, TLS, 10 connections", MEGABYTES, 10, PAGES),
    _fetch("fetch_64k_tls", " 64 kB, TLS, 20 connections", REQUESTS, 20, PAGES_TO_FETCH, 65536),
)

_CLIENTS: Final = (
    Load("client_produce", "librdkafka through Python, produce 1 kB", "client_produce", MEGABYTES),
    Load(
        "client_fetch",
        "librdkafka through Python, fetch 1 kB",
        "client_fetch",
        MEGABYTES,
        batches=RECORDS_TO_FETCH,
    ),
    Load("java_produce", "Java's perf tool, produce 1 kB", "java_produce", MEGABYTES),
    Load("java_fetch", "Java's perf tool, fetch 1 kB", "java_fetch", MEGABYTES, batches=RECORDS_TO_FETCH),
)
_FULL: Final = (
    *_SINGLE,
    *(replace(load, partitions=8) for load in _EIGHT),
    *(replace(load, tls=True) for load in _TLS),
    *_CLIENTS,
)
_HALVED: Final = ("api_versions", "produce_100b", "produce_16k", "produce_8", "fetch_64k", "fetch_8")
_AT_HALF: Final = tuple(
    replace(load, name=f"{load.name}_half", at_half=True, goal=1.0) for load in _FULL if load.name in _HALVED
)
LOADS: Final = {load.name: load for load in (*_FULL, *_AT_HALF)}


@contextmanager
def prepared(load: Load, port: int) -> Iterator[str]:
    """Create the topic of the load, filled if the load needs it, and delete it after a successful block.

    The deletion keeps the next load free of these bytes. Raises LoadError.
    """
    topic = f"load-{uuid.uuid4().hex[:12]}"
    admin = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "log_level": 2,
            "security.protocol": "ssl" if load.tls else "plaintext",
            "enable.ssl.certificate.verification": False,
        }
    )
    try:
        admin.create_topics([NewTopic(topic, load.partitions, 1)])[topic].result(ADMIN_LIMIT_S)
        time.sleep(SETTLE_S)
        if load.batches is not None and load.batches.count:
            _fill(load, port, topic, load.batches)
        yield topic
        admin.delete_topics([topic])[topic].result(ADMIN_LIMIT_S)
    except (KafkaException, TimeoutError) as error:
        raise LoadError(f"topic {topic}: {error}") from error


def measure(
    load: Load, port: int, topic: str, *, seconds: float, warm_up_s: float, within: Sequence[str] = ()
) -> dict[str, Any]:
    """Run one load against the broker on `port` and return the program's result. Raises LoadError.

    `within` is a command that runs the load program: its words come before the program's. A load at half of
    the broker's rate is preceded by PEAK_S at the full rate, whose answers are counted in `answered`.
    """
    if load.at_half:
        full = measure(
            replace(load, at_half=False), port, topic, seconds=PEAK_S, warm_up_s=warm_up_s, within=within
        )
        paced = replace(
            load, at_half=False, options=(*load.options, f"--rate={full['requests_per_second'] / 2}")
        )
        result = measure(paced, port, topic, seconds=seconds, warm_up_s=AT_HALF_WARM_UP_S, within=within)
        return result | {"answered": result["answered"] + full["answered"]}
    if load.ask.startswith(("client_", "java_")):
        program = "benchmarks.client" if load.ask.startswith("client_") else "benchmarks.java_client"
        command = [sys.executable, "-m", program, load.ask, str(port), topic, str(CLIENT_RECORDS)]
    else:
        command = _load_command(
            load.ask,
            port,
            topic,
            f"--connections={load.connections}",
            f"--partitions={load.partitions}",
            f"--max-bytes={MAX_BYTES}",
            f"--seconds={seconds}",
            f"--warm-up={warm_up_s}",
            *load.transport(),
            *load.options,
        )
        if load.batches is not None:
            command += [*load.batches.arguments(), f"--batches={load.batches.count}"]
    return _run([*within, *command], limit_s=seconds + warm_up_s + SLACK_S)


def _load_command(ask: str, port: int, topic: str, *options: str) -> list[str]:
    return [str(LOAD_PROGRAM), ask, f"--port={port}", f"--topic={topic}", *options]


def _fill(load: Load, port: int, topic: str, batches: Batches) -> None:
    each = batches.count // FILL_CONNECTIONS
    command = _load_command(
        "produce",
        port,
        topic,
        f"--connections={FILL_CONNECTIONS}",
        f"--partitions={load.partitions}",
        f"--batches={each}",
        f"--seconds={FILL_LIMIT_S}",
        "--warm-up=0",
        *load.transport(),
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
