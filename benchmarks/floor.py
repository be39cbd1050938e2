"""What a C program could do in Weir's place for large fetches: `python -m benchmarks.floor`.

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

PROGRAM: Final = HERE / "build" / "floor"
WARM_UP_S: Final = 0.1
START_S: Final = 0.2
FETCHES: Final = (
    LOADS["fetch_1m"],
    *(replace(LOADS["fetch_1m"], title=f"Fetch 1 MB, {n} connections", connections=n) for n in (20, 100)),
    LOADS["fetch_64k"],
)


class Form(NamedTuple):
    """A way to send: `mode` as the program names it, `send_buffer` and `piece` in bytes (0: no limit)."""

    title: str
    mode: str
    send_buffer: int = 0
    piece: int = 0
    threads: int = 1


FORMS: Final = (
    Form("sendfile, send buffer of 128 KiB", "sendfile", 131_072),
    Form("sendfile, 256 KiB", "sendfile", 262_144),
    Form("sendfile, the system's buffer", "sendfile"),
    Form("the same, 64 KiB a turn", "sendfile", piece=65_536),
    Form("the same, 2 threads", "sendfile", threads=2),
    Form("mapped file", "mapped"),
    Form("mapped file, 256 KiB", "mapped", 262_144),
    Form("copied by pread", "copied"),
    Form("MSG_ZEROCOPY of a mapped file", "zerocopy"),
)


class Turn(NamedTuple):
    megabytes: float
    cpu_us: float


def install() -> None:
    install_load_program()
    install_weir()
    command = ["cc", *C_FLAGS, "-o", str(PROGRAM), str(HERE / "floor" / "server.c"), "-lpthread"]
    subprocess.run(command, check=True)


@contextlib.contextmanager
def serving(form: Form, segment: Path, batch_bytes: int, records: int) -> Iterator[Broker]:
    port = free_port()
    what = (port, segment, batch_bytes, records, form.mode, form.send_buffer, form.piece, form.threads)
    process = subprocess.Popen([PROGRAM, *map(str, what)])
    try:
        time.sleep(START_S)
        yield Broker(port, process, Path(os.devnull))
    finally:
        process.kill()
        process.wait()


def turn(load: Load, broker: Broker, topic: str, seconds: float) -> Turn:
    before = broker.cpu_s()
    measured = measure(load, broker.port, topic, seconds=seconds, warm_up_s=WARM_UP_S)
    return Turn(measured["megabytes_per_second"], (broker.cpu_s() - before) / measured["answered"] * 1e6)


def rows(load: Load, turns: dict[str, list[Turn]]) -> Iterator[str]:
    """Yield the rows of a load; the first of `turns` is Weir's."""
    ours = next(iter(turns.values()))
    for title, measured in turns.items():
        megabytes, cpu_us = (statistics.median(figures) for figures in zip(*measured, strict=True))
        rate, cpu = (
            statistics.median(theirs[i] / own[i] for theirs, own in zip(measured, ours, strict=True))
            for i in range(2)
        )
        yield f"| {load.title} | {title} | {megabytes:,.0f} | {rate:.2f} | {cpu_us:,.0f} | {cpu:.2f} |"


@click.command()
@click.option("--rounds", default=6, show_default=True, type=click.IntRange(min=2))
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
def main(rounds: int, seconds: float) -> None:
    """Print a row for each load and form."""
    install()
    filled = LOADS["fetch_1m"].batches
    assert filled is not None
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weir = stack.enter_context(running(PEERS["weir"], scratch))
        topic = stack.enter_context(prepared(LOADS["fetch_1m"], weir.port))
        (log,) = scratch.glob(f"*/data/{topic}-0/*.log")
        segment = scratch / "segment"
        shutil.copy(log, segment)
        batch_bytes = segment.stat().st_size // filled.count
        brokers = {"Weir": weir}
        for form in FORMS:
            brokers[form.title] = stack.enter_context(serving(form, segment, batch_bytes, filled.records))
        click.echo("| load | who sends | MB/s | to Weir's | processor us per request | to Weir's |")
        click.echo("| --- | --- | --- | --- | --- | --- |")
        for load in FETCHES:
            turns: dict[str, list[Turn]] = {title: [] for title in brokers}
            order = list(brokers)
            for _ in range(rounds):
                for title in order:
                    turns[title].append(turn(load, brokers[title], topic, seconds))
                order.reverse()
            for row in rows(load, turns):
                click.echo(row)
        click.echo(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
