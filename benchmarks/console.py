"""The console's cost for Kafka clients: `python -m benchmarks.console`.

Sends small requests to a broker without console users, and again with 50 browsers on live pages or with a
flood of 200 connections (as of `wrk -c 200`), in turns, so that other load of the machine affects both. The
latencies show the effect on a client. Then benchmarks.watched measures the processor time of the console
within the one thread and its longest uninterrupted piece, which depend little on other load of the machine.
Takes some eight minutes. The goal is a p99 that grows by less than 20 %.

Time that the host of a virtual machine gives to other guests multiplies the p99; measurements in which it
took more than `CALM` of the cores are reported but do not count.

`--first` gives broker and load priority over every other process of the machine (SCHED_RR, needs root): for
a shared machine. It measures only the paced load, as the other one would use both cores.
"""

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import click

from benchmarks.install import install_load_program
from benchmarks.loads import REQUESTS, Load, measure
from benchmarks.peers import PEERS, Peer
from benchmarks.process import Broker, running, stolen_s

GOAL: Final = 1.2
WARM_UP_S: Final = 0.5
INSIDE_S: Final = 6
CALM: Final = 0.02
LEAST_CALM: Final = 3
SETTLED_S: Final = 3.0
"""After this time the broker has answered all new connections or queued them."""

PRIORITY: Final = 19

PACED: Final = Load("paced", "1,000 a second over 10 connections", "api_versions", REQUESTS, 10)
CLOSED: Final = Load("closed", "20 connections, as fast as they are answered", "api_versions", REQUESTS, 20)
LOADS: Final = (replace(PACED, options=("--rate=1000",)), CLOSED)


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    arguments: tuple[str, ...]


CASES: Final = (
    Case("50 browsers on live pages", ("50",)),
    Case("a flood of 200 connections", ("200", "--flood")),
)


@dataclass(slots=True)
class Cell:
    """One load in one case: the pairs of measurements without and with it, in microseconds."""

    case: str
    load: str
    quiet: list[dict[str, float]] = field(default_factory=list)
    busy: list[dict[str, float]] = field(default_factory=list)

    @property
    def told(self) -> bool:
        """Return whether enough measurements were undisturbed."""
        return min(len(_calm(self.quiet)), len(_calm(self.busy))) >= LEAST_CALM

    def ratio(self, figure: str) -> float:
        return _median(_calm(self.busy), figure) / _median(_calm(self.quiet), figure)


def _calm(measured: list[dict[str, float]]) -> list[dict[str, float]]:
    return [each for each in measured if each["stolen"] <= CALM]


@contextmanager
def visited(broker: Broker, case: Case) -> Iterator[None]:
    """Run the case's visitors during the block, at the lowest priority."""
    count, *options = case.arguments
    command = [sys.executable, "-m", "benchmarks.pages", str(broker.port + 1), count, "600", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_stand_back)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise click.ClickException(f"{case.title}: the visitors did not start")
        sleep(SETTLED_S)
        yield
    finally:
        process.kill()
        process.communicate()
        sleep(0.5)


def _stand_back() -> None:
    """Lower the priority: real browsers are on other machines, so these use only spare time."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _await_console(broker: Broker) -> None:
    for _ in range(200):
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{broker.port + 1}/healthz", timeout=5),
        ):
            return
        sleep(0.1)
    raise click.ClickException("the console does not respond")


def latencies(peer: Peer, scratch: Path, loads: tuple[Load, ...], pairs: int, seconds: float) -> list[Cell]:
    """Measure latencies without and with each case, in turns, on one broker."""
    cells = {(case.title, load.name): Cell(case.title, load.title) for case in CASES for load in loads}

    def once(broker: Broker, load: Load) -> dict[str, float]:
        before, began = stolen_s(), monotonic()
        measured = measure(load, broker.port, "none", seconds=seconds, warm_up_s=WARM_UP_S)
        share = (stolen_s() - before) / ((monotonic() - began) * (os.cpu_count() or 1))
        return measured | {"stolen": share}

    with running(peer, scratch) as broker:
        _await_console(broker)
        for number in range(pairs):
            for case in CASES:
                for load in loads:
                    cells[case.title, load.name].quiet.append(once(broker, load))
                with visited(broker, case):
                    for load in loads:
                        cells[case.title, load.name].busy.append(once(broker, load))
            click.echo(f"pair {number + 1} of {pairs}", err=True)
    return list(cells.values())


def insides(peer: Peer, scratch: Path) -> dict[str, dict[str, float]]:
    """Return for each case the console's processor time in ms per second and its longest piece in ms, under
    the paced load.
    """
    found: dict[str, dict[str, float]] = {}
    told = scratch / "inside"

    def command(directory: Path, port: int) -> list[str]:
        _, *arguments = peer.command(directory, port)
        return [sys.executable, "-P", str(Path(__file__).with_name("watched.py")), str(told), *arguments]

    with running(replace(peer, command=command), scratch) as broker:
        _await_console(broker)
        for case in CASES:
            with visited(broker, case):
                before = len(_lines(told))
                measure(LOADS[0], broker.port, "none", seconds=INSIDE_S, warm_up_s=WARM_UP_S)
                # The second in which the load began is not of this case alone.
                lines = _lines(told)[before + 1 :]
            found[case.title] = {
                "ms_per_s": statistics.median(line["console_ms"] / line["seconds"] for line in lines),
                "longest_turn_ms": max(line["longest_turn_ms"] for line in lines),
            }
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def report(cells: list[Cell], inside: dict[str, dict[str, float]]) -> Iterator[str]:
    """Yield Markdown for docs/benchmarks-figures.md."""
    yield "| visitors | load | p50, us | p99, us | p99.9, us | left alone | p99, of that without | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for cell in cells:
        counts = [f"{len(_calm(some))} of {len(some)}" for some in (cell.quiet, cell.busy)]
        if not cell.told:
            yield f"| {cell.case} | {cell.load} | | | | {', '.join(counts)} | | the host was too busy |"
            continue
        ratio = cell.ratio("p99_us")
        figures = [
            f"{_median(_calm(cell.quiet), name):,.0f} to {_median(_calm(cell.busy), name):,.0f}"
            for name in ("p50_us", "p99_us", "p999_us")
        ]
        verdict = "hit" if ratio < GOAL else "MISS"
        yield (
            f"| {cell.case} | {cell.load} | {' | '.join(figures)} | {', '.join(counts)} "
            f"| {ratio:.2f} | {verdict} (goal under {GOAL}) |"
        )
    yield ""
    yield "| visitors | processor time of the console, ms a second | its longest piece, ms |"
    yield "| --- | --- | --- |"
    for title, figure in inside.items():
        yield f"| {title} | {figure['ms_per_s']:.1f} | {figure['longest_turn_ms']:.1f} |"


def _median(measured: list[dict[str, float]], name: str) -> float:
    return statistics.median(each[name] for each in measured)


@click.command()
@click.option(
    "--pairs", default=14, show_default=True, help="Pairs of measurements, without and with visitors."
)
@click.option("--seconds", default=1.5, show_default=True, help="Counted seconds of a measurement.")
@click.option("--first", is_flag=True, help="Give broker and load priority over all else (needs root).")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all values into this file.")
def main(pairs: int, seconds: float, first: bool, json_file: Path | None) -> None:
    """Measure the console's cost for Kafka clients."""
    install_load_program()
    os.environ["WEIR_ADMIN_TOKEN"] = secrets.token_urlsafe(24)
    loads = LOADS[:1] if first else LOADS
    if first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    with tempfile.TemporaryDirectory(prefix="weir-console-") as scratch:
        cells = latencies(PEERS["weir"], Path(scratch), loads, pairs, seconds)
        inside = insides(PEERS["weir"], Path(scratch))
    for line in report(cells, inside):
        click.echo(line)
    load1, _, _ = os.getloadavg()
    click.echo(f"\nload average at the end: {load1:.1f}")
    if json_file is not None:
        found = [{name: getattr(cell, name) for name in Cell.__slots__} for cell in cells]
        json_file.write_text(json.dumps({"cells": found, "inside": inside}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
