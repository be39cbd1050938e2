"""The accuracy of quotas for throttled clients over real sockets: `python -m benchmarks.accuracy`.

Each cell is one client that sends or fetches as fast as it can, on a broker of its own, for quotas from 10
kB/s to 50 MB/s. The broker counts its bytes: those of whole requests received and whole responses sent
(kafka_server_socket_server_metrics_incoming_byte_total, ..._outgoing_byte_total), including the few bytes
of Metadata and ApiVersions. The rate is measured from the client's first request on, and again from 12 s
later on, after the initial burst. The last cells have 200 producers under the quota of one user.
"""

import json
import os
import re
import secrets
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.greedy import CLIENTS, Appetite, crowd, produced_by
from benchmarks.install import install_kafka
from benchmarks.peers import PEERS
from benchmarks.process import Broker, running
from broker.common.principal import ANONYMOUS

QUOTAS: Final = (10_000, 100_000, 1_000_000, 10_000_000, 50_000_000)
KINDS: Final = {"produce": ("producer_byte_rate", "incoming"), "fetch": ("consumer_byte_rate", "outgoing")}
SETTLED_S: Final = 12.0
"""A client may use eleven windows of a second at once and then pays for them."""

CLIENT_ID: Final = "greedy"
TOPIC: Final = "accuracy"
CROWD: Final = 200
CROWD_QUOTA: Final = 1_000_000
CROWD_REQUESTS: Final = (1_000, 16_000)
BEGAN: Final = 1_000
"""A client has begun after this number of bytes: ApiVersions and Metadata come first."""

_starting = Lock()


@dataclass(frozen=True, slots=True)
class Result:
    """Shares of the quota: from the first request on, and from 12 s later on."""

    title: str
    quota: int
    whole: float
    settled: float
    note: str = ""


def batch_for(quota: int) -> int:
    """Return the size of a request: a fifth of a second's bytes, so that a cut request at the end does not
    matter.
    """
    return min(max(quota // 5, 2_000), 1_000_000)


@contextmanager
def _broker(scratch: Path) -> Iterator[Broker]:
    with _starting:  # otherwise two brokers would find the same free port
        alive = running(PEERS["weir"], scratch)
        broker = alive.__enter__()
    try:
        yield broker
    finally:
        alive.__exit__(None, None, None)


def _ask(broker: Broker, path: str, body: object = None) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.port + 1}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {os.environ['WEIR_ADMIN_TOKEN']}", "Content-Type": "application/json"},
        method="GET" if body is None else "PATCH",
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
        return content


def _limit(broker: Broker, entity: dict[str, str], key: str, value: int) -> None:
    entry = {"entity": entity, "ops": [{"key": key, "value": value}]}
    _ask(broker, "/api/v1/client-quotas", {"entries": [entry]})


def _bytes_seen(broker: Broker, direction: str) -> float:
    page = _ask(broker, "/metrics").decode()
    name = f"kafka_server_socket_server_metrics_{direction}_byte_total"
    return sum(float(value) for value in re.findall(rf"^{name}\{{.*\}} (\S+)$", page, re.MULTILINE))


def _watch(broker: Broker, direction: str, before: float, quota: int, seconds: float) -> tuple[float, float]:
    """Return the shares of the quota: over all of `seconds`, and without the first 12."""
    while _bytes_seen(broker, direction) < before + BEGAN:
        broker.check_alive()
        time.sleep(0.002)
    began = time.monotonic()
    time.sleep(SETTLED_S)
    middle, at_middle = _bytes_seen(broker, direction) - before, time.monotonic()
    time.sleep(began + seconds - time.monotonic())
    end, at_end = _bytes_seen(broker, direction) - before, time.monotonic()
    return end / (at_end - began) / quota, (end - middle) / (at_end - at_middle) / quota


def one_client(client: str, kind: str, quota: int, seconds: float, scratch: Path) -> Result:
    key, direction = KINDS[kind]
    batch = batch_for(quota)
    with _broker(scratch) as broker:
        record = min(batch // 2, 10_000)
        records = min(quota * 20, 300_000_000) // record if kind == "fetch" else 0
        appetite = Appetite(kind, broker.port, TOPIC, CLIENT_ID, batch, record, records)
        _make_topic(appetite)
        _limit(broker, {"client-id": CLIENT_ID}, key, quota)
        before = _bytes_seen(broker, direction)
        with CLIENTS[client](appetite):
            whole, settled = _watch(broker, direction, before, quota, seconds)
    return Result(f"{kind}, {client}", quota, whole, settled)


def _make_topic(appetite: Appetite) -> None:
    admin = AdminClient({"bootstrap.servers": appetite.bootstrap, "log_level": 2})
    settings = {} if appetite.records else {"retention.bytes": "200000000", "segment.bytes": "50000000"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)
    if appetite.records:
        filler = produced_by(appetite, **{"client.id": "filler", "queue.buffering.max.kbytes": 1_000_000})
        value = bytes(appetite.record_bytes)
        for _ in range(appetite.records):
            filler.produce(TOPIC, value, partition=0)
            filler.poll(0)
        filler.flush()


def many_clients(request_bytes: int, seconds: float, scratch: Path) -> Result:
    """Measure 200 producers of one user, who share one allowance."""
    with _broker(scratch) as broker:
        appetite = Appetite("produce", broker.port, TOPIC, "crowd", request_bytes, min(request_bytes, 4_000))
        _make_topic(appetite)
        _limit(broker, {"user": ANONYMOUS}, "producer_byte_rate", CROWD_QUOTA)
        before = _bytes_seen(broker, "incoming")
        # The first requests of 200 clients are not Produce requests.
        with crowd(appetite, CROWD) as delivered:
            whole, settled = _watch(broker, "incoming", before, CROWD_QUOTA, seconds)
            shares = list(delivered)
    return Result(
        f"produce, {CROWD} of librdkafka, {request_bytes / 1000:g} kB requests",
        CROWD_QUOTA,
        whole,
        settled,
        spread(shares),
    )


def spread(shares: Sequence[int]) -> str:
    """Describe the fairness: the least and the greatest share, and Jain's index (1: equal shares)."""
    mean = statistics.fmean(shares)
    squares = sum(share * share for share in shares)
    jain = sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0
    return f"each {min(shares) / mean:.2f} to {max(shares) / mean:.2f} of the mean, Jain {jain:.3f}"


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="Measured time of each client.")
@click.option("--at-once", default=2, show_default=True, help="Number of concurrent cells.")
@click.option("--quota", "quotas", type=int, multiple=True, help="Measure only this quota. Repeatable.")
@click.option(
    "--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Measure only this kind."
)
@click.option(
    "--client", "clients", type=click.Choice(list(CLIENTS)), multiple=True, help="Measure only this client."
)
@click.option("--crowd/--no-crowd", "with_crowd", default=True, help="Measure the 200 producers too.")
def main(
    seconds: float,
    at_once: int,
    quotas: tuple[int, ...],
    kinds: tuple[str, ...],
    clients: tuple[str, ...],
    with_crowd: bool,
) -> None:
    """Measure the accuracy of quotas for throttled clients over real sockets."""
    os.environ["WEIR_ADMIN_TOKEN"] = secrets.token_urlsafe(32)
    clients = clients or tuple(CLIENTS)
    if "java" in clients:
        install_kafka()
    cells = [
        (client, kind, quota)
        for quota in quotas or QUOTAS
        for kind in kinds or tuple(KINDS)
        for client in clients
    ]
    click.echo(f"| client | quota | {seconds:g} s from its first request | from second 12 on | |")
    click.echo("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="weir-accuracy-") as made, ThreadPoolExecutor(at_once) as pool:
        scratch = Path(made)
        for result in pool.map(lambda cell: one_client(cell[0], cell[1], cell[2], seconds, scratch), cells):
            _print(result)
        if with_crowd:
            for size in CROWD_REQUESTS:
                _print(many_clients(size, seconds, scratch))
    click.echo(f"\nload average {os.getloadavg()[0]:.1f}")


def _print(result: Result) -> None:
    quota = f"{result.quota / 1e6:g} MB/s" if result.quota >= 1e6 else f"{result.quota / 1e3:g} kB/s"
    click.echo(f"| {result.title} | {quota} | {result.whole:.4f} | {result.settled:.4f} | {result.note} |")


if __name__ == "__main__":
    main()
