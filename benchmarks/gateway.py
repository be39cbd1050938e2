"""Weir's gateway beside a plain TCP proxy, in front of one Kafka: `python -m benchmarks.gateway [LOAD]...`.

The same loads go to Kafka directly, through HAProxy in TCP mode and through `weir gateway`, in turns of some
seconds on the same two cores, while all of them run: an idle proxy costs nothing. Each round is counted by
the ratio of its own turns, so that changes of the machine's speed affect all ways alike. Needs Debian's
haproxy beside what `make bench` needs for Kafka.

`processes` measures gateways of one, two and four processes beside HAProxy with one and two threads. The
gateways share their limits, so that one console has the requests of each process.

`--equipped` measures a gateway with what production has: quotas of a thousand clients, the load's among them,
PROXY protocol on the listener, racks for clients that name none, and a console that somebody looks at.
"""

import contextlib
import json
import os
import secrets
import socket
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.descendants import family
from benchmarks.install import install_kafka, install_load_program
from benchmarks.loads import (
    LOADS,
    MEGABYTES,
    PAGES,
    PAGES_TO_FETCH,
    REQUESTS,
    SMALL,
    Batches,
    Load,
    measure,
    prepared,
)
from benchmarks.memory import IDLE_BYTES, warm_memory
from benchmarks.peers import PEERS, Peer, weir_program
from benchmarks.process import API_VERSIONS_0, Broker, running

HERE: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = HERE / "benchmarks" / "results"
DIRECT: Final = "direct"
HAPROXY: Final = "haproxy"
WEIR: Final = "weir"
TITLES: Final = {DIRECT: "direct", HAPROXY: "HAProxy", WEIR: "Weir"}
HAPROXY_2: Final = "haproxy-2"
WEIR_2: Final = "weir-2"
WEIR_4: Final = "weir-4"
PROCESSES: Final = {WEIR: 1, WEIR_2: 2, WEIR_4: 4}
"""The gateways of the part `processes`, and how many processes each has."""

PROCESS_WAYS: Final = (HAPROXY, HAPROXY_2, *PROCESSES)
WARM_UP_S: Final = 0.5
REHEARSAL_S: Final = 8.0
WOKEN_BYTES: Final = 1_250_000_000  # about what one turn writes
IDLE_SETTLE_S: Final = 3.0
IDLE_COUNTED_S: Final = 5.0
PAGES_OF_64K: Final = Batches(64, 1000)

HAPROXY_CONFIG: Final = """\
global
    nbthread {threads}
    maxconn 7000
    maxpipes 500
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    option splice-auto
listen kafka
    bind 127.0.0.1:{port} backlog 4096
    server kafka 127.0.0.1:{kafka_port}
"""


@dataclass(frozen=True, slots=True)
class Goals:
    """What Weir is to reach. `rate`: the factor of HAProxy's. `cpu_us` of processor time per request,
    `cpu_ms_per_mb` per MB (a millicore per MB/s), and `cpu_ratio` to HAProxy's: at most.
    """

    rate: float
    cpu_us: float | None = None
    cpu_ms_per_mb: float | None = None
    cpu_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    load: Load
    goals: Goals


_BIG: Final = Goals(1.0, cpu_ratio=1.0)
_64K: Final = Goals(1.0, cpu_ms_per_mb=1.0)
_16K: Final = Goals(0.85, cpu_ms_per_mb=3.0)
_16K_WRITTEN: Final = Goals(0.95, cpu_ms_per_mb=3.0)
_SMALL: Final = Goals(0.9, cpu_us=20.0)

_ALL: Final = (
    Row(LOADS["produce_1m"], _BIG),
    Row(LOADS["fetch_1m"], _BIG),
    Row(
        Load(
            "produce_64k",
            "Produce, 64 records of 1 kB, 10 connections",
            "produce",
            MEGABYTES,
            10,
            PAGES_OF_64K,
        ),
        _64K,
    ),
    Row(LOADS["fetch_64k"], _64K),
    Row(
        Load("produce_16k", "Produce, 16 records of 1 kB, 10 connections", "produce", MEGABYTES, 10, PAGES),
        _16K_WRITTEN,
    ),
    Row(
        Load(
            "fetch_16k",
            "Fetch 16 kB, 20 connections",
            "fetch",
            REQUESTS,
            20,
            PAGES_TO_FETCH,
            ("--fetch-bytes=16384",),
        ),
        _16K,
    ),
    Row(LOADS["produce_100b"], _SMALL),
    Row(LOADS["metadata"], _SMALL),
    Row(LOADS["api_versions"], _SMALL),
)
ROWS: Final = {row.load.name: row for row in _ALL}

PACED: Final = Load(
    "paced",
    "Produce, 1 record of 100 B, 1,000 requests/s over 20 connections",
    "produce",
    REQUESTS,
    20,
    SMALL,
    ("--rate=1000",),
)
ADDED_P50_US: Final = 150.0
ADDED_P99_US: Final = 1_000.0
IDLE_PAIR_BYTES: Final = 40_000

SPREAD_CONNECTIONS: Final = 1_000
"""The system assigns each connection to a process at random. Of fewer connections the processes have unequal
numbers: of 100, one of four is often 20 % away from the mean.
"""

SPREAD_LOADS: Final = tuple(
    replace(LOADS[name], connections=SPREAD_CONNECTIONS, title=f"{title}, {SPREAD_CONNECTIONS:,} connections")
    for name, title in (("produce_100b", "Produce, 1 record of 100 B"), ("fetch_64k", "Fetch 64 kB"))
)
MAX_COST_RATIO: Final = 1.1
MAX_SPREAD: Final = 0.2
SPREAD_SECONDS: Final = 5.0
"""Of a turn at least: a thousand connections take a part of it to open."""

TOLD_EVERY_S: Final = 1.2
"""The processes tell each other their counts once a second."""

GATHERED_WITHIN_S: Final = 60.0

LIMITED_CLIENTS: Final = 1_000
LIMITS: Final = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}
"""Limits that are counted and never reached."""

EQUIPMENT: Final = (
    "listener.name.plaintext.proxy.protocol=accept",
    "listener.name.plaintext.proxy.protocol.trusted.addresses=127.0.0.1",
    "gateway.client.racks=127.0.0.0/8:here",
    "gateway.client.racks.software=weir-load",
)
LOOKED_AT: Final = ("topics", "groups", "transactions")
LOOKED_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One load through one way. Processor seconds are of the proxy and of Kafka, with the warm-up; so are
    `answered` requests. MB are 10^6 bytes of record batches. `spread` is how far the requests of one process
    were at most from the mean of all, as a part of it.
    """

    load: str
    round: int
    way: str
    rate: float
    answered: int
    mb_per_request: float
    p50_us: float
    p99_us: float
    proxy_cpu_s: float
    kafka_cpu_s: float
    spread: float | None = None

    @property
    def cpu_us(self) -> float:
        return self.proxy_cpu_s / self.answered * 1e6

    @property
    def cpu_ms_per_mb(self) -> float | None:
        return self.cpu_us / 1000 / self.mb_per_request if self.mb_per_request else None


@dataclass(frozen=True, slots=True)
class Idle:
    """Connections that are open and quiet: bytes of the proxy for each, and its processor seconds a
    second.
    """

    way: str
    connections: int
    pair_bytes: float
    cpu_share: float
    opened_per_second: float


def haproxy(kafka_port: int, threads: int) -> Peer:
    def prepare(directory: Path, port: int) -> None:
        text = HAPROXY_CONFIG.format(threads=threads, port=port, kafka_port=kafka_port)
        (directory / "haproxy.cfg").write_text(text, encoding="utf-8")

    def command(directory: Path, port: int) -> list[str]:
        return ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]

    return Peer(HAPROXY, TITLES[HAPROXY], "none", command, prepare)


def weir_gateway(kafka_port: int, checkout: Path, overrides: Sequence[str] = ()) -> Peer:
    def command(directory: Path, port: int) -> list[str]:
        settings = [
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"upstream.bootstrap.servers=127.0.0.1:{kafka_port}",
            # `running` leaves ten ports to each process.
            f"gateway.port.range={port + 2}-{port + 9}",
            f"log.dirs={directory / 'data'}",
            f"console.listener=127.0.0.1:{port + 1}",
            *overrides,
        ]
        own = checkout / ".venv" / "bin" / "weir"
        program = weir_program() if checkout == HERE.resolve() else str(own)
        return [program, "gateway", *(f"--override={setting}" for setting in settings)]

    return Peer(WEIR, TITLES[WEIR], "none", command)


Ways = Mapping[str, Broker]
"""The way's name to the process that clients connect to; that of DIRECT is Kafka."""


@contextlib.contextmanager
def started(names: Sequence[str], checkout: Path, overrides: Sequence[str], threads: int) -> Iterator[Ways]:
    """Start Kafka, warmed up, and the proxies."""
    RESULTS.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scratch-", dir=RESULTS)))
        kafka = stack.enter_context(running(PEERS["kafka"], scratch))
        found = {DIRECT: kafka}
        for name in ("metadata", "produce_100b"):
            with prepared(LOADS[name], kafka.port) as topic:
                measure(LOADS[name], kafka.port, topic, seconds=REHEARSAL_S, warm_up_s=0)
        peers = {HAPROXY: haproxy(kafka.port, threads), HAPROXY_2: haproxy(kafka.port, 2)}
        for name, count in PROCESSES.items():
            own = (f"node.id={10 * count}", f"gateway.processes={count}")
            peers[name] = weir_gateway(kafka.port, checkout, (*own, *overrides))
        for name in names:
            if name != DIRECT:
                found[name] = stack.enter_context(running(peers[name], scratch))
        yield {name: found[name] for name in (DIRECT, *names)}


def turn(load: Load, round_number: int, way: str, ways: Ways, topic: str, seconds: float) -> Turn:
    kafka, process = ways[DIRECT], ways[way]
    processes = family(process.process.pid)
    if load.writes:
        os.sync()
    with warm_memory(WOKEN_BYTES if load.writes and load.measure == MEGABYTES else IDLE_BYTES):
        proxy_before, kafka_before = process.cpu_s(), kafka.cpu_s()
        result = measure(load, process.port, topic, seconds=seconds, warm_up_s=WARM_UP_S)
    process.check_alive()
    if family(process.process.pid) != processes:
        raise SystemExit(f"a process of {way} has ended")
    return Turn(
        load.name,
        round_number,
        way,
        result[load.measure],
        result["answered"],
        result["batch_bytes"] / result["requests"] / 1e6,
        result["p50_us"],
        result["p99_us"],
        0.0 if way == DIRECT else process.cpu_s() - proxy_before,
        kafka.cpu_s() - kafka_before,
    )


def turns_of(
    load: Load,
    names: Sequence[str],
    ways: Ways,
    rounds: int,
    seconds: float,
    measured: Callable[[Load, int, str, Ways, str, float], Turn] = turn,
) -> list[Turn]:
    """Measure each way in each round; the order rotates. A round has a topic of its own, on Kafka, which
    its turns share; the turns of round 0 are not counted.
    """
    found: list[Turn] = []
    for round_number in range(rounds + 1):
        first = round_number % len(names)
        with prepared(load, ways[DIRECT].port) as topic:
            for way in (*names[first:], *names[:first]):
                found.append(measured(load, round_number, way, ways, topic, seconds))
    return [each for each in found if each.round > 0]


def idle(way: str, broker: Broker, connections: int) -> Idle:
    """Open the connections, each with one request answered, and look at the process while they are quiet."""
    before = broker.memory().anonymous
    with contextlib.ExitStack() as stack:
        began = time.perf_counter()
        opened = []
        for _ in range(connections):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=30))
            client.sendall(API_VERSIONS_0)
            opened.append(client)
            if len(opened) % 100 == 0:
                _read_all(opened[-100:])
        _read_all(opened[len(opened) // 100 * 100 :])
        took = time.perf_counter() - began
        time.sleep(IDLE_SETTLE_S)
        memory, cpu_before = broker.memory().anonymous - before, broker.cpu_s()
        time.sleep(IDLE_COUNTED_S)
        share = (broker.cpu_s() - cpu_before) / IDLE_COUNTED_S
        if not all(map(_is_open, opened)):
            raise SystemExit("an idle connection was closed")
    return Idle(way, connections, memory / connections, share, connections / took)


def _read_all(clients: Sequence[socket.socket]) -> None:
    for client in clients:
        size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
        if len(client.recv(size, socket.MSG_WAITALL)) != size:
            raise SystemExit("an idle connection was closed before its first response")


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1))
    except BlockingIOError:
        return True


# What production has


def ask_console(broker: Broker, path: str, body: object = None) -> Any:
    """GET a resource of the gateway's console, or PATCH it if there is a body."""
    headers = {
        "Authorization": f"Bearer {os.environ['WEIR_ADMIN_TOKEN']}",
        "Content-Type": "application/json",
    }
    data, method = (None, "GET") if body is None else (json.dumps(body).encode(), "PATCH")
    url = f"http://127.0.0.1:{broker.port + 1}/api/v1/{path}"
    asked = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read())


@contextlib.contextmanager
def equipped(gateway: Broker) -> Iterator[None]:
    """Limit a thousand clients, and read the cluster's topics, groups and transactions once a second."""
    clients = ["weir-load", *(f"client-{number}" for number in range(LIMITED_CLIENTS - 1))]
    ops = [{"key": key, "value": value} for key, value in LIMITS.items()]
    ask_console(
        gateway,
        "client-quotas",
        {"entries": [{"entity": {"client-id": each}, "ops": ops} for each in clients]},
    )
    if ask_console(gateway, "client-quotas?limit=1")["total"] != LIMITED_CLIENTS:
        raise SystemExit("the gateway did not take the limits")
    ended, failures = threading.Event(), list[OSError | ValueError]()

    def look() -> None:
        try:
            while not ended.wait(LOOKED_EVERY_S):
                for resource in LOOKED_AT:
                    ask_console(gateway, resource)
        except (OSError, ValueError) as error:
            failures.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
    if failures:
        raise failures[0]


# Several processes


def requests_of_processes(way: str, ways: Ways) -> dict[str, int]:
    """Return the requests of each process of a gateway, by its id, once they change no more."""
    node_ids = {str(10 * PROCESSES[way] + number) for number in range(PROCESSES[way])}
    found: dict[str, int] = {}
    deadline = time.perf_counter() + GATHERED_WITHIN_S
    while time.perf_counter() < deadline:
        rows = ask_console(ways[way], "gateways")["items"]
        known, found = (
            found,
            {
                row["gateway_id"]: row["traffic"]["requests"]
                for row in rows
                if row["traffic"] is not None and row["gateway_id"].partition("-")[0] in node_ids
            },
        )
        if known == found and len(found) == len(node_ids):
            return found
        time.sleep(TOLD_EVERY_S)
    raise SystemExit(f"the console of {way} shows {len(found)} processes, or their requests do not end")


def counted_turn(load: Load, round_number: int, way: str, ways: Ways, topic: str, seconds: float) -> Turn:
    """Measure a turn, and of a gateway also the spread of the requests over its processes."""
    if way not in PROCESSES:
        return turn(load, round_number, way, ways, topic, seconds)
    before = requests_of_processes(way, ways)
    found = turn(load, round_number, way, ways, topic, seconds)
    after = requests_of_processes(way, ways)
    return replace(found, spread=spread_of([after[each] - before[each] for each in before]))


def spread_of(counts: Sequence[int]) -> float:
    """Return how far the farthest count is from their mean, as a part of it."""
    mean = statistics.fmean(counts)
    return max(abs(each / mean - 1) for each in counts)


def measure_processes(checkout: Path, overrides: Sequence[str], rounds: int, seconds: float) -> list[str]:
    """Measure the gateways and HAProxy, and return the table."""
    shared = ("quota.scope=cluster", f"gateway.cluster.keys={secrets.token_urlsafe(32)}", *overrides)
    turns: dict[str, list[Turn]] = {}
    with started(PROCESS_WAYS, checkout, shared, 1) as ways:
        for load in SPREAD_LOADS:
            found = turns_of(load, PROCESS_WAYS, ways, rounds, max(seconds, SPREAD_SECONDS), counted_turn)
            _keep(found)
            turns[load.title] = found
            _say(f"{load.title}: {_ratio(ratio(found, lambda each: each.cpu_us, WEIR_4, WEIR))}")
    return processes_table(turns)


# The report


def _median(turns: Sequence[Turn], way: str, value: Callable[[Turn], float | None]) -> float | None:
    found = [known for each in turns if each.way == way and (known := value(each)) is not None]
    return statistics.median(found) if found else None


def ratio(
    turns: Sequence[Turn], value: Callable[[Turn], float], of: str, to: str
) -> tuple[float, float, float] | None:
    """Return the median over rounds of one way's value to another's in the same round, least and most."""
    rounds = _by_round(turns, value)
    return _middle([each[of] / each[to] for each in rounds if of in each and each.get(to)])


def _by_round(turns: Sequence[Turn], value: Callable[[Turn], float]) -> list[dict[str, float]]:
    rounds: dict[int, dict[str, float]] = {}
    for each in turns:
        rounds.setdefault(each.round, {})[each.way] = value(each)
    return list(rounds.values())


def _middle(found: Sequence[float]) -> tuple[float, float, float] | None:
    return (statistics.median(found), min(found), max(found)) if found else None


def ratio_to_threads(
    turns: Sequence[Turn], value: Callable[[Turn], float]
) -> tuple[float, float, float] | None:
    """Return Weir's value with two processes to HAProxy's with two threads, as a part of that with one of
    each in the same round: the median over rounds, least and most.
    """
    wanted = (HAPROXY, HAPROXY_2, WEIR, WEIR_2)
    return _middle(
        [
            (each[WEIR_2] / each[HAPROXY_2]) / (each[WEIR] / each[HAPROXY])
            for each in _by_round(turns, value)
            if all(each.get(way) for way in wanted)
        ]
    )


def _verdict(reached: bool, goal: str) -> str:
    return f"{'hit' if reached else 'MISS'} ({goal})"


def _row(*fields: str) -> str:
    return "| " + " | ".join(fields) + " |"


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _ratio(found: tuple[float, float, float] | None) -> str:
    return "" if found is None else f"{found[0]:.2f} ({found[1]:.2f}-{found[2]:.2f})"


def throughput_table(turns: Mapping[str, Sequence[Turn]], names: Sequence[str]) -> list[str]:
    titles = [TITLES[name] for name in names]
    lines = [_row("load", *titles, "Weir / HAProxy", "goal"), _row(*["---"] * (len(names) + 3))]
    for name, found in turns.items():
        row = ROWS[name]
        unit = "req/s" if row.load.measure == REQUESTS else "MB/s"
        rates = [_number(_median(found, way, lambda each: each.rate)) for way in names]
        paired = ratio(found, lambda each: each.rate, WEIR, HAPROXY)
        goal = row.goals.rate
        verdict = "" if paired is None else _verdict(paired[0] >= goal, f"at least {goal:g}")
        lines.append(_row(f"{row.load.title}, {unit}", *rates, _ratio(paired), verdict))
    return lines


def _cpu_verdict(found: Sequence[Turn], goals: Goals) -> str:
    """Judge the processor time of the gateway by the goal that the load has."""
    per_request = _median(found, WEIR, lambda each: each.cpu_us)
    per_mb = _median(found, WEIR, lambda each: each.cpu_ms_per_mb)
    paired = ratio(found, lambda each: each.cpu_us, WEIR, HAPROXY)
    if goals.cpu_us is not None and per_request is not None:
        return _verdict(per_request < goals.cpu_us, f"under {goals.cpu_us:g} us")
    if goals.cpu_ms_per_mb is not None and per_mb is not None:
        return _verdict(per_mb < goals.cpu_ms_per_mb, f"under {goals.cpu_ms_per_mb:g} ms per MB")
    if goals.cpu_ratio is not None and paired is not None:
        return _verdict(paired[0] <= goals.cpu_ratio, "at most HAProxy's")
    return ""


def processor_table(turns: Mapping[str, Sequence[Turn]], names: Sequence[str]) -> list[str]:
    proxies = [name for name in names if name != DIRECT]
    titles = [f"{TITLES[name]}, us per request; ms per MB" for name in proxies]
    lines = [
        _row("processor time of the proxy", *titles, "Weir / HAProxy", "goal"),
        _row(*["---"] * (len(proxies) + 3)),
    ]
    for name, found in turns.items():
        fields = []
        for way in proxies:
            per_request = _number(_median(found, way, lambda each: each.cpu_us), 1)
            per_mb = _median(found, way, lambda each: each.cpu_ms_per_mb)
            fields.append(per_request if per_mb is None or per_mb > 20 else f"{per_request}; {per_mb:.2f}")
        paired = ratio(found, lambda each: each.cpu_us, WEIR, HAPROXY)
        verdict = _cpu_verdict(found, ROWS[name].goals)
        lines.append(_row(ROWS[name].load.title, *fields, _ratio(paired), verdict))
    return lines


def latency_table(found: Sequence[Turn], names: Sequence[str]) -> list[str]:
    """Return p50 and p99, and what a proxy adds to the direct way's in the same round at the median."""
    rounds: dict[int, dict[str, Turn]] = {}
    for each in found:
        rounds.setdefault(each.round, {})[each.way] = each
    lines = [
        _row(f"{PACED.title}, us", "p50", "p99", "added p50", "added p99", "goal"),
        _row(*["---"] * 6),
    ]
    for way in names:
        p50 = _median(found, way, lambda each: each.p50_us)
        p99 = _median(found, way, lambda each: each.p99_us)
        fields = [TITLES[way], _number(p50), _number(p99), "", "", ""]
        pairs = [(each[way], each[DIRECT]) for each in rounds.values() if way in each and DIRECT in each]
        if way != DIRECT and pairs:
            added_50 = statistics.median(ours.p50_us - direct.p50_us for ours, direct in pairs)
            added_99 = statistics.median(ours.p99_us - direct.p99_us for ours, direct in pairs)
            fields[3:5] = _number(added_50), _number(added_99)
            if way == WEIR:
                reached = added_50 < ADDED_P50_US and added_99 < ADDED_P99_US
                fields[5] = _verdict(reached, f"under {ADDED_P50_US:g} and {ADDED_P99_US:g}")
        lines.append(_row(*fields))
    return lines


def idle_table(found: Sequence[Idle]) -> list[str]:
    lines = [
        _row("idle connections", "bytes per pair", "processor", "opened per second", "goal"),
        _row(*["---"] * 5),
    ]
    for each in found:
        verdict = ""
        if each.way == WEIR:
            verdict = _verdict(each.pair_bytes < IDLE_PAIR_BYTES, f"under {IDLE_PAIR_BYTES:,}")
        lines.append(
            _row(
                f"{TITLES[each.way]}, {each.connections:,}",
                _number(each.pair_bytes),
                f"{each.cpu_share:.1%}",
                _number(each.opened_per_second),
                verdict,
            )
        )
    return lines


def processes_table(turns: Mapping[str, Sequence[Turn]]) -> list[str]:
    """Return the cost and the spread of several processes, by the titles of the loads."""
    lines = [_row("several processes", "measured", "goal"), _row(*["---"] * 3)]
    for title, found in turns.items():
        costs = [_number(_median(found, way, lambda each: each.cpu_us), 1) for way in PROCESS_WAYS]
        rates = [_number(_median(found, way, lambda each: each.rate)) for way in PROCESS_WAYS]
        of_ways = "HAProxy with 1 and 2 threads, Weir with 1, 2 and 4 processes"
        lines += [
            _row(f"{title}: processor us per request, {of_ways}", ", ".join(costs), ""),
            _row(f"rate, {of_ways}", "; ".join(rates), ""),
        ]
        for way in (WEIR_2, WEIR_4):
            cost = ratio(found, lambda each: each.cpu_us, way, WEIR)
            verdict = (
                "" if cost is None else _verdict(cost[0] <= MAX_COST_RATIO, f"at most {MAX_COST_RATIO:g}")
            )
            lines.append(_row(f"processor time of {PROCESSES[way]} processes / one", _ratio(cost), verdict))
        for way in (WEIR_2, WEIR_4):
            spreads = [each.spread for each in found if each.way == way and each.spread is not None]
            if spreads:
                middle, most = statistics.median(spreads), max(spreads)
                verdict = _verdict(most <= MAX_SPREAD, f"at most {MAX_SPREAD:.0%} in each round")
                text = f"{middle:.1%} (at most {most:.1%})"
                lines.append(_row(f"farthest of {PROCESSES[way]} processes from their mean", text, verdict))
        cost = ratio_to_threads(found, lambda each: each.cpu_us)
        verdict = "" if cost is None else _verdict(cost[0] <= 1, "at most 1")
        of_pairs = "Weir / HAProxy with two processes and threads, to that with one"
        lines.append(_row(f"{of_pairs}: processor time", _ratio(cost), verdict))
        rate = ratio_to_threads(found, lambda each: each.rate)
        lines.append(_row(f"{of_pairs}: rate", _ratio(rate), ""))
    return lines


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {text}", err=True)


def _keep(records: Sequence[Any]) -> None:
    with (RESULTS / "gateway.jsonl").open("a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(asdict(record)) + "\n" for record in records)


@click.command()
@click.argument("loads", nargs=-1, type=click.Choice([*ROWS, PACED.name, "idle", "processes"]))
@click.option(
    "--way",
    "names",
    multiple=True,
    default=(DIRECT, HAPROXY, WEIR),
    show_default=True,
    type=click.Choice([*TITLES]),
    help="Repeatable.",
)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=2.0, show_default=True, help="Counted seconds of one turn.")
@click.option("--connections", default=5_000, show_default=True, help="Idle connections.")
@click.option(
    "--checkout",
    default=HERE,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout whose .venv has the `weir` to measure; default: this one.",
)
@click.option("--override", "overrides", multiple=True, help="KEY=VALUE for `weir gateway`. Repeatable.")
@click.option("--haproxy-threads", default=1, show_default=True)
@click.option(
    "--equipped",
    "with_equipment",
    is_flag=True,
    help="Set quotas, PROXY protocol and racks, and look at the console.",
)
def main(
    loads: Sequence[str],
    names: Sequence[str],
    rounds: int,
    seconds: float,
    connections: int,
    checkout: Path,
    overrides: Sequence[str],
    haproxy_threads: int,
    with_equipment: bool,
) -> None:
    """Measure the ways to Kafka, and print medians and ratios as Markdown."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    install_load_program()
    install_kafka()
    os.environ["WEIR_ADMIN_TOKEN"] = secrets.token_urlsafe(32)
    wanted = loads or [*ROWS, PACED.name, "idle", "processes"]
    of_ways = [each for each in wanted if each != "processes"]
    tables = (
        _measure_ways(
            of_ways,
            names,
            rounds,
            seconds,
            connections,
            checkout.resolve(),
            overrides,
            haproxy_threads,
            with_equipment,
        )
        if of_ways
        else []
    )
    if "processes" in wanted:
        tables.append(measure_processes(checkout.resolve(), overrides, rounds, seconds))
    print("\n\n".join("\n".join(table) for table in tables))


def _measure_ways(
    wanted: Sequence[str],
    names: Sequence[str],
    rounds: int,
    seconds: float,
    connections: int,
    checkout: Path,
    overrides: Sequence[str],
    haproxy_threads: int,
    with_equipment: bool,
) -> list[list[str]]:
    """Measure the loads through the ways to Kafka. Return the tables."""
    turns: dict[str, list[Turn]] = {}
    tables: list[list[str]] = []
    quiet: list[Idle] = []
    overrides = (*(EQUIPMENT if with_equipment else ()), *overrides)
    with (
        started(names, checkout, overrides, haproxy_threads) as ways,
        equipped(ways[WEIR]) if with_equipment else contextlib.nullcontext(),
    ):
        # First, as memory that earlier loads have freed would hide what connections take.
        if "idle" in wanted:
            quiet = [idle(name, ways[name], connections) for name in names if name != DIRECT]
            _keep(quiet)
        for name in [each for each in wanted if each in ROWS]:
            load = ROWS[name].load
            if with_equipment:
                load = replace(load, options=(*load.options, "--named"))
            turns[name] = turns_of(load, names, ways, rounds, seconds)
            _keep(turns[name])
            _say(f"{name}: {_ratio(ratio(turns[name], lambda each: each.rate, names[-1], names[0]))}")
        if turns:
            tables += [throughput_table(turns, names), processor_table(turns, names)]
        if PACED.name in wanted:
            paced = turns_of(PACED, names, ways, rounds, max(seconds, 4.0))
            _keep(paced)
            tables.append(latency_table(paced, names))
    if quiet:
        tables.append(idle_table(quiet))
    return tables


if __name__ == "__main__":
    main()
