"""Compares this checkout of Weir with another or with a commit, under the same loads, in about five minutes:
`make bench-quick BASE=COMMIT`, or `python -m benchmarks.paired OLD [LOAD]...`.

Both brokers run at once, and each load is sent to one and then to the other in turns of a fraction of a
second, so that changes of the machine's speed affect both alike. The order of the starts and the place of a
broker's pages in memory can change its rate by a tenth for as long as it runs, so both are started again and
again, in alternating order. The result is the median over these starts, each counted by the median of the
ratios of neighbouring turns. On a machine that others use, processor time per request differs less from run
to run than the rate, and instructions less again, where the machine can count them.

With `--quotas N`, the new broker has limits of every kind on N client ids, the load's among them, that none
of them reaches: `python -m benchmarks.paired . --quotas 1000` shows what quotas cost that throttle no client.

OLD is a commit, which is checked out for the comparison and run with this checkout's packages, or the folder
of a checkout with a .venv of its own: `git worktree add`, `make .venv/dev`. A commit runs interpreted.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click

from benchmarks.install import compile_bytecode, install_load_program
from benchmarks.loads import LOADS, Load, measure, prepared
from benchmarks.memory import warm_memory
from benchmarks.peers import Peer
from benchmarks.process import Broker, running
from benchmarks.quota_changes import Wire
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)

HERE: Final = Path(__file__).resolve().parent.parent
WARM_UP_S: Final = 0.15
INSTRUCTIONS: Final = "instructions"
LOAD_CLIENT_ID: Final = "weir-load"
LIMITS: Final = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 10_000.0}
DEFAULT_LOADS: Final = (
    "api_versions",
    "metadata",
    "produce_100b",
    "produce_16k",
    "produce_8",
    "fetch_64k",
    "fetch_8",
)


class Turn(NamedTuple):
    """One turn: `rate` in the unit of the load; of the broker, processor time and instructions per request.

    `instructions` is None where the machine cannot count them.
    """

    rate: float
    cpu_us: float
    instructions: float | None


class Ratio(NamedTuple):
    """New to old: the median over all starts, its standard error, and the least and the most of a start."""

    median: float
    error: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ± {self.error:.3f} ({self.least:.2f}-{self.most:.2f})"


def ratio(starts: Sequence[Sequence[float]]) -> Ratio:
    """Return the ratio over at least two starts, from the ratios of the pairs of each."""
    medians = [statistics.median(pairs) for pairs in starts]
    lower, _, upper = statistics.quantiles(medians, n=4)
    # For a normal distribution the standard deviation is IQR / 1.349, and the standard error of the median is
    # 1.253 times that of the mean.
    error = 1.253 * (upper - lower) / 1.349 / len(medians) ** 0.5
    return Ratio(statistics.median(medians), error, min(medians), max(medians))


class Start(NamedTuple):
    """The turns of one load while the same two brokers ran: the n-th of both are neighbours."""

    old: list[Turn]
    new: list[Turn]

    def ratios(self, figure: str) -> list[float]:
        """Return new to old of each pair that has the figure."""
        both = [
            (getattr(new, figure), getattr(old, figure)) for new, old in zip(self.new, self.old, strict=True)
        ]
        return [new / old for new, old in both if new is not None and old is not None]


def row(title: str, starts: Sequence[Start]) -> str:
    """Return a load's row of the table: a dash for what could not be counted."""
    figures = [[start.ratios(figure) for start in starts] for figure in Turn._fields]
    return " | ".join(["", title, *(str(ratio(f)) if all(f) else "-" for f in figures), ""]).strip()


def event_count(report: str) -> int | None:
    """Return the count of a report of `perf stat -x,`: None if the machine does not count the event."""
    for line in report.splitlines():
        count, *fields = line.split(",")
        if len(fields) > 1 and fields[1].startswith(INSTRUCTIONS):
            return int(count) if count.isdigit() else None
    return None


def counts_instructions() -> bool:
    command = ["perf", "stat", "-x,", "-e", INSTRUCTIONS, "true"]
    with contextlib.suppress(OSError):
        return (
            event_count(subprocess.run(command, capture_output=True, text=True, check=False).stderr)
            is not None
        )
    return False


def program_of(checkout: Path) -> list[str]:
    """Return the command `weir` of a checkout: its own, or this Python with the checkout's sources."""
    own = checkout / ".venv" / "bin" / "weir"
    return (
        [str(own)]
        if own.exists()
        else ["env", f"PYTHONPATH={checkout}", sys.executable, "-P", "-m", "broker"]
    )


def command_of(checkout: Path, directory: Path, port: int) -> list[str]:
    return [
        *program_of(checkout),
        "serve",
        f"--override=listeners=PLAINTEXT://127.0.0.1:{port}",
        f"--override=log.dirs={directory / 'data'}",
        f"--override=console.listener=127.0.0.1:{port + 1}",
    ]


@contextlib.contextmanager
def checked_out(old: str) -> Iterator[Path]:
    """Yield the folder of a checkout: `old` itself, or a worktree of the commit, removed after the block."""
    if Path(old, "pyproject.toml").exists():
        yield Path(old).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="weir-base-") as directory:
        worktree = Path(directory, "old")
        added = subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(worktree), old],
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
        )
        if added.returncode != 0:
            raise click.BadParameter(f"{old}: neither a checkout nor a commit: {added.stderr.strip()}")
        try:
            yield worktree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(worktree)], cwd=HERE, check=True)


def version_of(checkout: Path) -> str:
    command = [*program_of(checkout), "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def started(checkout: Path) -> Iterator[Broker]:
    peer = Peer(checkout.name, checkout.name, "file", partial(command_of, checkout))
    with tempfile.TemporaryDirectory() as directory, running(peer, Path(directory)) as broker:
        yield broker


def turn(load: Load, broker: Broker, topic: str, seconds: float, *, count: bool) -> Turn:
    with tempfile.NamedTemporaryFile(encoding="ascii", mode="r") as report:
        perf = ("perf", "stat", "-x,", "-o", report.name, "-e", INSTRUCTIONS, "-p", str(broker.process.pid))
        before = broker.cpu_s()
        measured = measure(
            load, broker.port, topic, seconds=seconds, warm_up_s=WARM_UP_S, within=perf if count else ()
        )
        cpu_s, answered = broker.cpu_s() - before, measured["answered"]
        counted = event_count(report.read()) if count else None
    return Turn(measured[load.measure], cpu_s / answered * 1e6, counted / answered if counted else None)


def compare(load: Load, old: Broker, new: Broker, pairs: int, seconds: float, *, count: bool) -> Start:
    turns: dict[int, list[Turn]] = {old.port: [], new.port: []}
    with prepared(load, old.port) as old_topic, prepared(load, new.port) as new_topic:
        order = [(old, old_topic), (new, new_topic)]
        with warm_memory(load.takes(2 * pairs * (seconds + WARM_UP_S), 0)):
            for _ in range(pairs):
                for broker, topic in order:
                    turns[broker.port].append(turn(load, broker, topic, seconds, count=count))
                order.reverse()
    return Start(turns[old.port], turns[new.port])


def limits_of(clients: int) -> AlterClientQuotasRequest:
    """Return a request that limits so many client ids, the load's first, to what none of them reaches."""
    names = [LOAD_CLIENT_ID, *(f"client-{number}" for number in range(1, clients))]
    ops = [OpData(key, value) for key, value in LIMITS.items()]
    return AlterClientQuotasRequest(
        [RequestEntryData([EntityData("client-id", name)], ops) for name in names[:clients]],
        validate_only=False,
    )


def limit(broker: Broker, clients: int) -> None:
    with contextlib.closing(Wire(broker.port, "benchmark")) as connection:
        connection.ask(limits_of(clients), 1)


def compare_all(
    loads: Sequence[str], old: Path, starts: int, pairs: int, seconds: float, quotas: int = 0
) -> dict[str, list[Start]]:
    """Return the starts of each load. The new broker limits so many clients as `quotas` says."""
    found: dict[str, list[Start]] = defaultdict(list)
    count = counts_instructions()
    order = [(False, old), (True, HERE)]
    for number in range(1, starts + 1):
        with contextlib.ExitStack() as stack:
            brokers = {is_new: stack.enter_context(started(folder)) for is_new, folder in order}
            if quotas:
                limit(brokers[True], quotas)
            for name in loads:
                found[name].append(
                    compare(LOADS[name], brokers[False], brokers[True], pairs, seconds, count=count)
                )
        order.reverse()
        click.echo(f"start {number} of {starts} is measured", err=True)
    return found


@click.command()
@click.argument("old")
@click.argument("loads", nargs=-1, type=click.Choice(sorted(LOADS)))
@click.option("--starts", default=4, show_default=True, type=click.IntRange(min=2))
@click.option(
    "--pairs", default=6, show_default=True, help="Pairs of turns of each start.", type=click.IntRange(min=2)
)
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
@click.option("--quotas", default=0, help="Clients that the new broker limits.", type=click.IntRange(min=0))
def main(old: str, loads: Sequence[str], starts: int, pairs: int, seconds: float, quotas: int) -> None:
    """Print a row for each load: this checkout's figures as ratios to those of OLD, a commit or a checkout.

    A produce load writes all its bytes to disk: the data of a start is removed after it.
    """
    install_load_program()
    with checked_out(old) as checkout:
        for each in (checkout, HERE):
            compile_bytecode(each)
        versions = [version_of(checkout), version_of(HERE)]
        click.echo(f"old: {versions[0]}; new: {versions[1]}")
        if versions[0] != versions[1]:
            click.echo("They are not of one kind: this compares more than their sources.", err=True)
        found = compare_all(loads or DEFAULT_LOADS, checkout, starts, pairs, seconds, quotas)
    click.echo("| new / old | rate | processor time per request | instructions per request |")
    click.echo("| --- | --- | --- | --- |")
    for name, measured in found.items():
        click.echo(row(LOADS[name].title, measured))


if __name__ == "__main__":
    main()
