"""What a C program could do in Weir's place: `python -m benchmarks.floor` for large fetches, and
`python -m benchmarks.floor produce`, `fetch_many` or `tls` for Produce, fetches of 8 partitions, and TLS.

Starts Weir, compiled unless WEIR_PROGRAM names another, and some forms of benchmarks/floor at once, and sends
each load to one after the other in turns of a fraction of a second. A row's ratios are medians over the pairs
of turns with Weir.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from benchmarks.install import (
    C_FLAGS,
    HERE,
    WEIR_PROGRAM,
    has_openssl,
    install_load_program,
    install_weir,
)
from benchmarks.loads import LOADS, Load, measure, prepared
from benchmarks.memory import warm_memory
from benchmarks.peers import PEERS, TLS_PEERS, prepare_certificate
from benchmarks.process import Broker, free_port, running

SOURCES: Final = HERE / "floor"
PROGRAMS: Final = HERE / "build"
WARM_UP_S: Final = 0.1
START_S: Final = 0.2
FETCHES: Final = (
    LOADS["fetch_1m"],
    *(replace(LOADS["fetch_1m"], title=f"Fetch 1 MB, {n} connections", connections=n) for n in (20, 100)),
    LOADS["fetch_64k"],
)
PRODUCES: Final = tuple(
    LOADS[name]
    for name in (
        "produce_100b",
        "produce_16k",
        "produce_16k_vary",
        "produce_1m_all",
        "produce_8",
        "produce_8_4k",
        "produce_8_idempotent",
    )
)


class FetchForm(NamedTuple):
    """A way to send: `mode` as the program names it, `send_buffer` and `piece` in bytes (0: no limit)."""

    title: str
    mode: str
    send_buffer: int = 0
    piece: int = 0
    threads: int = 1


FETCH_FORMS: Final = (
    FetchForm("sendfile, send buffer of 128 KiB", "sendfile", 131_072),
    FetchForm("sendfile, 256 KiB", "sendfile", 262_144),
    FetchForm("sendfile, the system's buffer", "sendfile"),
    FetchForm("the same, 64 KiB a turn", "sendfile", piece=65_536),
    FetchForm("the same, 2 threads", "sendfile", threads=2),
    FetchForm("mapped file", "mapped"),
    FetchForm("mapped file, 256 KiB", "mapped", 262_144),
    FetchForm("copied by pread", "copied"),
    FetchForm("MSG_ZEROCOPY of a mapped file", "zerocopy"),
)
PRODUCE_FORMS: Final = {
    "CRC checked, one pwrite for each batch": "checked",
    "the same without the CRC": "unchecked",
}
COPIED: Final = "ranges copied by pread, one send"


class Turn(NamedTuple):
    rate: float
    cpu_us: float


def install() -> None:
    install_load_program()
    install_weir()
    tls = ("-DWEIR_FLOOR_TLS", "-lssl", "-lcrypto") if has_openssl() else ()
    for name, shared, libraries in (
        ("fetch", ("common",), ("-lpthread",)),
        ("fetch_many", ("common", "requests"), tls),
        ("produce", ("common", "requests"), tls),
    ):
        sources = [str(SOURCES / f"{each}.c") for each in (name, *shared)]
        command = ["cc", *C_FLAGS, "-o", str(PROGRAMS / f"floor-{name}"), *sources, *libraries]
        subprocess.run(command, check=True)


@contextlib.contextmanager
def serving(program: str, *what: object) -> Iterator[Broker]:
    """Start `floor-PROGRAM` on a free port with the arguments `what`, and kill it at the end."""
    port = free_port()
    process = subprocess.Popen([PROGRAMS / f"floor-{program}", *map(str, (port, *what))])
    try:
        time.sleep(START_S)
        yield Broker(port, process, Path(os.devnull))
    finally:
        process.kill()
        process.wait()


def turn(load: Load, broker: Broker, topic: str, seconds: float) -> Turn:
    before = broker.cpu_s()
    measured = measure(load, broker.port, topic, seconds=seconds, warm_up_s=WARM_UP_S)
    return Turn(measured[load.measure], (broker.cpu_s() - before) / measured["answered"] * 1e6)


def rows(load: Load, turns: dict[str, list[Turn]]) -> Iterator[str]:
    """Yield the rows of a load; the first of `turns` is Weir's. The rate has the load's unit."""
    ours = next(iter(turns.values()))
    for title, measured in turns.items():
        rate_median, cpu_us = (statistics.median(figures) for figures in zip(*measured, strict=True))
        rate, cpu = (
            statistics.median(theirs[i] / own[i] for theirs, own in zip(measured, ours, strict=True))
            for i in range(2)
        )
        yield f"| {load.title} | {title} | {rate_median:,.0f} | {rate:.2f} | {cpu_us:,.0f} | {cpu:.2f} |"


def compare(load: Load, brokers: dict[str, Broker], topic: str, rounds: int, seconds: float) -> None:
    """Send the load to all brokers in turns, and print its rows."""
    turns: dict[str, list[Turn]] = {title: [] for title in brokers}
    order = list(brokers)
    with warm_memory(load.takes(len(brokers) * rounds * (seconds + WARM_UP_S), 0)):
        for _ in range(rounds):
            for title in order:
                turns[title].append(turn(load, brokers[title], topic, seconds))
            order.reverse()
    for row in rows(load, turns):
        click.echo(row)


class Comparison(NamedTuple):
    """What all comparisons have: an exit stack for programs, a folder, the rounds and seconds of a turn."""

    stack: contextlib.ExitStack
    scratch: Path
    rounds: int
    seconds: float

    def weir(self, *, tls: bool = False) -> Broker:
        return self.stack.enter_context(running((TLS_PEERS if tls else PEERS)["weir"], self.scratch))

    def serve(self, program: str, *what: object) -> Broker:
        return self.stack.enter_context(serving(program, *what))

    def compare(self, load: Load, brokers: dict[str, Broker], topic: str) -> None:
        compare(load, brokers, topic, self.rounds, self.seconds)

    def fill(self, load: Load, weir: Broker) -> tuple[str, Path, int, int]:
        """Return the load's topic; a folder with a copy of each partition's only segment, in a file of its
        number; the bytes and the records of each batch.
        """
        filled = load.batches
        assert filled is not None
        topic = self.stack.enter_context(prepared(load, weir.port))
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        for partition in range(load.partitions):
            (log,) = self.scratch.glob(f"*/data/{topic}-{partition}/*.log")
            shutil.copy(log, folder / str(partition))
        return topic, folder, (folder / "0").stat().st_size // filled.count, filled.records

    def folder(self, name: str) -> Path:
        folder = self.scratch / name
        folder.mkdir()
        return folder


def compare_fetches(them: Comparison) -> None:
    weir = them.weir()
    topic, folder, batch_bytes, records = them.fill(LOADS["fetch_1m"], weir)
    brokers = {"Weir": weir}
    for form in FETCH_FORMS:
        what = (folder / "0", batch_bytes, records, form.mode, form.send_buffer, form.piece, form.threads)
        brokers[form.title] = them.serve("fetch", *what)
    for load in FETCHES:
        them.compare(load, brokers, topic)


def compare_produces(them: Comparison) -> None:
    brokers = {"Weir": them.weir()}
    for title, mode in PRODUCE_FORMS.items():
        brokers[title] = them.serve("produce", them.folder(mode), mode)
    for load in PRODUCES:
        with prepared(load, brokers["Weir"].port) as topic:
            them.compare(load, brokers, topic)


def compare_fetches_of_many(them: Comparison) -> None:
    weir = them.weir()
    loads = LOADS["fetch_8"], LOADS["fetch_8_session"]
    topic, *what = them.fill(loads[0], weir)
    brokers = {"Weir": weir, COPIED: them.serve("fetch_many", *what)}
    for load in loads:
        them.compare(load, brokers, topic)


def compare_over_tls(them: Comparison) -> None:
    weir = them.weir(tls=True)
    prepare_certificate(them.scratch, weir.port)
    pem = them.scratch / "store.pem"
    checked, mode = next(iter(PRODUCE_FORMS.items()))
    produce, fetch = LOADS["produce_16k_tls"], LOADS["fetch_64k_tls"]
    brokers = {"Weir": weir, checked: them.serve("produce", them.folder(mode), mode, pem)}
    with prepared(produce, weir.port) as topic:
        them.compare(produce, brokers, topic)
    topic, *what = them.fill(fetch, weir)
    them.compare(fetch, {"Weir": weir, COPIED: them.serve("fetch_many", *what, pem)}, topic)


COMPARISONS: Final[dict[str, Callable[[Comparison], None]]] = {
    "fetch": compare_fetches,
    "fetch_many": compare_fetches_of_many,
    "produce": compare_produces,
    "tls": compare_over_tls,
}


@click.command()
@click.argument("what", type=click.Choice(list(COMPARISONS)), default="fetch")
@click.option("--rounds", default=6, show_default=True, type=click.IntRange(min=2))
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
def main(what: str, rounds: int, seconds: float) -> None:
    """Print a row for each load and form."""
    install()
    os.environ.setdefault("WEIR_PROGRAM", str(WEIR_PROGRAM))
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        click.echo(
            "| load | who answers | MB/s or requests/s | to Weir's | processor us per request | to Weir's |"
        )
        click.echo("| --- | --- | --- | --- | --- | --- |")
        COMPARISONS[what](Comparison(stack, scratch, rounds, seconds))
        click.echo(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
