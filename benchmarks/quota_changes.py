"""Quota changes per second on a serving broker: `python -m benchmarks.quota_changes`.

The broker has 1,000 rules and throttles 200 connections, half of them by rules of their own and half by the
default rule. Limits change one at a time; each change is a request whose response comes when the change is
on the disk and in force: over AlterClientQuotas and by PATCH of REST, from one connection and from eight.
Meanwhile a client sends ApiVersions a hundred times a second; its latency is reported too.

On a shared machine the broker's processor time per change, over all of its threads, is more meaningful than
the changes per second.
"""

import http.client
import itertools
import json
import os
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peers import PEERS
from benchmarks.process import API_VERSIONS_0, Broker, running
from broker.protocol import codec
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

RULES: Final = 1_000
HELD: Final = 200
GOAL: Final = 200
TOKEN: Final = "weir-benchmark-token-of-some-length"
KEY: Final = "producer_byte_rate"
BURST: Final = 20_000
"""Bytes of the request that throttles a connection: at a byte per second, for hours."""


class Wire:
    """A blocking connection with one request at a time."""

    def __init__(self, port: int, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id

    def ask(self, message: Any, version: int) -> bytes:
        parts: list[Any] = codec.encode_request(message.API_KEY, version)(message, 1, self._client_id)
        return self.ask_bytes(b"".join(parts))

    def ask_bytes(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return self._socket.recv(size, socket.MSG_WAITALL)

    def close(self) -> None:
        self._socket.close()


def alter(*rules: tuple[str | None, float]) -> AlterClientQuotasRequest:
    """Return a request that sets limits of client-ids; None is the default."""
    return AlterClientQuotasRequest(
        [RequestEntryData([EntityData("client-id", name)], [OpData(KEY, value)]) for name, value in rules],
        validate_only=False,
    )


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one case."""

    title: str
    per_second: float
    cpu_ms: float
    busy: float
    probe_ms: tuple[float, float]


class Changes:
    """Runs the cases against one broker, one after the other."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._values: dict[str | None, int] = {}

    def wire(self, name: Callable[[int], str | None]) -> Callable[[], None]:
        connection, numbers = Wire(self._broker.port, "admin"), itertools.count()

        def change() -> None:
            rule = name(next(numbers))
            answer = connection.ask(alter((rule, self._value(rule))), 1)
            if b"\0\0\0" not in answer[:16]:
                raise click.ClickException(f"refused: {answer!r}")

        return change

    def rest(self, name: Callable[[int], str | None]) -> Callable[[], None]:
        connection = http.client.HTTPConnection("127.0.0.1", self._broker.port + 1, timeout=60)
        numbers = itertools.count()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

        def change() -> None:
            rule = name(next(numbers))
            op = {"key": KEY, "value": self._value(rule)}
            entry = {"entity": {"client-id": rule}, "ops": [op]}
            connection.request("PATCH", "/api/v1/client-quotas", json.dumps({"entries": [entry]}), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise click.ClickException(f"{answer.status}: {text!r}")

        return change

    def _value(self, rule: str | None) -> float:
        """Return a value that differs from the previous one."""
        self._values[rule] = self._values.get(rule, 1) % 7 + 1
        return float(self._values[rule])

    def measure(self, title: str, changers: list[Callable[[], None]]) -> Figures:
        """Measure changers that each change as fast as they get responses, on a thread of their own."""
        done = [0] * len(changers)
        failed: list[Exception] = []
        stop = threading.Event()

        def run(number: int) -> None:
            try:
                while not stop.is_set():
                    changers[number]()
                    done[number] += 1
            except (OSError, http.client.HTTPException, click.ClickException) as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(changers))]
        with probing(self._broker.port) as waits:
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            waits.clear()
            before, cpu, began = sum(done), self._broker.cpu_s(), time.perf_counter()
            time.sleep(self._seconds)
            took, cpu, count = time.perf_counter() - began, self._broker.cpu_s() - cpu, sum(done) - before
            found = sorted(waits)
            stop.set()
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]
        probe = statistics.median(found) * 1e3, found[int(len(found) * 0.99)] * 1e3
        return Figures(title, count / took, cpu / max(count, 1) * 1e3, cpu / took, probe)


@contextmanager
def probing(port: int) -> Iterator[list[float]]:
    """Measure the latency of ApiVersions, sent a hundred times a second."""
    waits: list[float] = []
    stop = threading.Event()

    def probe() -> None:
        with closing(Wire(port, "probe")) as connection:
            while not stop.wait(0.01):
                began = time.perf_counter()
                connection.ask_bytes(API_VERSIONS_0)
                waits.append(time.perf_counter() - began)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield waits
    finally:
        stop.set()
        thread.join()


def hold(port: int) -> list[Wire]:
    """Create the rules, and `HELD` connections that stay throttled during the measurement."""
    admin = Wire(port, "admin")
    admin.ask(CreateTopicsRequest([CreatableTopic("events", 1, 1)], 5_000, False), 5)
    admin.ask(alter(*((f"tenant-{number}", 1.0) for number in range(RULES - 1)), (None, 1.0)), 1)
    admin.close()
    records = build_batch([NewRecord(None, bytes(BURST), 0)])
    produce = ProduceRequest(
        None, 1, 30_000, [TopicProduceData("events", partition_data=[PartitionProduceData(0, records)])]
    )
    held = []
    for number in range(HELD):
        connection = Wire(port, f"tenant-{number}" if number % 2 else f"anybody-{number}")
        connection.ask(produce, 9)
        held.append(connection)
    return held


def particular(number: int) -> str | None:
    """Return a client id with a rule of its own; half of the first 200 throttle a connection each."""
    return f"tenant-{number % HELD}"


def default(number: int) -> str | None:
    """Return the default rule, which throttles the other half, each separately."""
    return None


@click.command()
@click.option("--seconds", default=8.0, show_default=True)
def main(seconds: float) -> None:
    """Measure quota changes per second on a serving broker."""
    os.environ["WEIR_ADMIN_TOKEN"] = TOKEN
    peer = PEERS["weir"]
    click.echo("| changes | a second | processor time of one, ms | cores used | ApiVersions p50, p99, ms |")
    click.echo("| --- | --- | --- | --- | --- |")
    with (
        tempfile.TemporaryDirectory(prefix="weir-changes-") as scratch,
        running(peer, Path(scratch)) as broker,
    ):
        time.sleep(2)
        held = hold(broker.port)
        changes = Changes(broker, seconds)
        for interface, make in (("AlterClientQuotas", changes.wire), ("REST PATCH", changes.rest)):
            for what, name in (("a rule", particular), ("the default rule", default)):
                for count in (1, 8):
                    title = f"{interface}, {what}, {count} connection{'s' if count > 1 else ''}"
                    figures = changes.measure(title, [make(name) for _ in range(count)])
                    click.echo(row(figures))
        for connection in held:
            connection.close()


def row(figures: Figures) -> str:
    p50, p99 = figures.probe_ms
    verdict = "hit" if figures.per_second >= GOAL else "MISS"
    return (
        f"| {figures.title} | {figures.per_second:.0f} ({verdict}, goal {GOAL}) | {figures.cpu_ms:.2f} "
        f"| {figures.busy:.2f} | {p50:.1f}, {p99:.1f} |"
    )


if __name__ == "__main__":
    main()
