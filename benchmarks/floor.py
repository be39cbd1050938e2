"""What a C program could do in Weir's place: `python -m benchmarks.floor` for large fetches, and
`python -m benchmarks.floor produce` for Produce.

Starts Weir and some forms of benchmarks/floor at once, and sends each load to one after the other in turns of
a fraction of a second. A row's ratios are medians over the pairs of turns with Weir.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import click

from benchmarks.install import C_FLAGS, HERE, install_load_program, install_weir
from benchmarks.loads import LOADS, Load, measure, prepared
from benchmarks.peers import PEERS
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


class Turn(NamedTuple):
    rate: float
    cpu_us: float


def install() -> None:
    install_load_program()
    install_weir()
    for name in ("fetch", "produce"):
        sources = [str(SOURCES / f"{name}.c"), str(SOURCES / "common.c")]
        subprocess.run(
            ["cc", *C_FLAGS, "-o", str(PROGRAMS / f"floor-{name}"), *sources, "-lpthread"], check=True
        )


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
    for _ in range(rounds):
        for title in order:
            turns[title].append(turn(load, brokers[title], topic, seconds))
        order.reverse()
    for row in rows(load, turns):
        click.echo(row)


def compare_fetches(
    stack: contextlib.ExitStack, weir: Broker, scratch: Path, rounds: int, seconds: float
) -> None:
    filled = LOADS["fetch_1m"].batches
    assert filled is not None
    topic = stack.enter_context(prepared(LOADS["fetch_1m"], weir.port))
    (log,) = scratch.glob(f"*/data/{topic}-0/*.log")
    segment = scratch / "segment"
    shutil.copy(log, segment)
    batch_bytes = segment.stat().st_size // filled.count
    brokers = {"Weir": weir}
    for form in FETCH_FORMS:
        what = (segment, batch_bytes, filled.records, form.mode, form.send_buffer, form.piece, form.threads)
        brokers[form.title] = stack.enter_context(serving("fetch", *what))
    for load in FETCHES:
        compare(load, brokers, topic, rounds, seconds)


def compare_produces(
    stack: contextlib.ExitStack, weir: Broker, scratch: Path, rounds: int, seconds: float
) -> None:
    brokers = {"Weir": weir}
    for title, mode in PRODUCE_FORMS.items():
        folder = scratch / mode
        folder.mkdir()
        brokers[title] = stack.enter_context(serving("produce", folder, mode))
    for load in PRODUCES:
        with prepared(load, weir.port) as topic:
            compare(load, brokers, topic, rounds, seconds)


@click.command()
@click.argument("what", type=click.Choice(["fetch", "produce"]), default="fetch")
@click.option("--rounds", default=6, show_default=True, type=click.IntRange(min=2))
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
def main(what: str, rounds: int, seconds: float) -> None:
    """Print a row for each load and form."""
    install()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(running(PEERS["weir"], scratch))
        click.echo(
            "| load | who answers | MB/s or requests/s | to Weir's | processor us per request | to Weir's |"
        )
        click.echo("| --- | --- | --- | --- | --- | --- |")
        compare_all = compare_fetches if what == "fetch" else compare_produces
        compare_all(stack, weir, scratch, rounds, seconds)
        click.echo(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
