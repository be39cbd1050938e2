"""Compares two checkouts of Weir under the same loads: `python -m benchmarks.paired OLD [LOAD]...`.

Both brokers run during a load, which is sent to one and then to the other in turns of a fraction of a
second, so that changes of the machine's speed affect both alike. The order of the starts and the place of a
broker's pages in memory can change its rate by a tenth for as long as it runs, so both are started again and
again, in alternating order. The result is the median over these starts, each counted by the median of the
ratios of neighbouring turns. OLD is a checkout with its own .venv: `git worktree add`, `make .venv/dev`.
"""

import contextlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click

from benchmarks.install import install_load_program
from benchmarks.loads import LOADS, Load, measure, prepared
from benchmarks.peers import Peer
from benchmarks.process import Broker, running

HERE: Final = Path(__file__).resolve().parent.parent
WARM_UP_S: Final = 0.15
DEFAULT_LOADS: Final = (
    "api_versions",
    "metadata",
    "produce_100b",
    "produce_16k",
    "produce_1m",
    "fetch_1m",
    "fetch_64k",
)


class Turn(NamedTuple):
    """One turn: `rate` in the unit of the load, `cpu_us` is the broker's processor time per request."""

    rate: float
    cpu_us: float


class Ratio(NamedTuple):
    """New to old: the median over all starts, and its standard error."""

    median: float
    error: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ± {self.error:.3f}"


def ratio(starts: Sequence[Sequence[float]]) -> Ratio:
    """Return the ratio over at least two starts, from the ratios of the pairs of each."""
    medians = [statistics.median(pairs) for pairs in starts]
    lower, _, upper = statistics.quantiles(medians, n=4)
    # For a normal distribution the standard deviation is IQR / 1.349, and the standard error of the median is
    # 1.253 times that of the mean.
    error = 1.253 * (upper - lower) / 1.349 / len(medians) ** 0.5
    return Ratio(statistics.median(medians), error)


def command_of(checkout: Path, directory: Path, port: int) -> list[str]:
    return [
        str(checkout / ".venv" / "bin" / "weir"),
        "serve",
        f"--override=listeners=PLAINTEXT://127.0.0.1:{port}",
        f"--override=log.dirs={directory / 'data'}",
        f"--override=console.listener=127.0.0.1:{port + 1}",
    ]


@contextlib.contextmanager
def started(checkout: Path, load: Load) -> Iterator[tuple[Broker, str]]:
    """Start a broker of the checkout and create the topic of the load."""
    peer = Peer(checkout.name, checkout.name, "file", partial(command_of, checkout))
    with (
        tempfile.TemporaryDirectory() as directory,
        running(peer, Path(directory)) as broker,
        prepared(load, broker.port) as topic,
    ):
        yield broker, topic


def turn(load: Load, broker: Broker, topic: str, seconds: float) -> Turn:
    before = broker.cpu_s()
    measured = measure(load, broker.port, topic, seconds=seconds, warm_up_s=WARM_UP_S)
    return Turn(measured[load.measure], (broker.cpu_s() - before) / measured["answered"] * 1e6)


def compare(load: Load, old: Path, new: Path, starts: int, pairs: int, seconds: float) -> tuple[Ratio, Ratio]:
    """Return the ratios of rates and of processor time per request, new to old."""
    rates: list[list[float]] = []
    times: list[list[float]] = []
    checkouts = [old, new]
    for _ in range(starts):
        turns: dict[Path, list[Turn]] = {old: [], new: []}
        with contextlib.ExitStack() as stack:
            order = [(each, *stack.enter_context(started(each, load))) for each in checkouts]
            for _ in range(pairs):
                for each, broker, topic in order:
                    turns[each].append(turn(load, broker, topic, seconds))
                order.reverse()
        checkouts.reverse()
        both = list(zip(turns[old], turns[new], strict=True))
        rates.append([now.rate / was.rate for was, now in both])
        times.append([now.cpu_us / was.cpu_us for was, now in both])
    return ratio(rates), ratio(times)


@click.command()
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("loads", nargs=-1, type=click.Choice(sorted(LOADS)))
@click.option("--starts", default=8, show_default=True, type=click.IntRange(min=2))
@click.option(
    "--pairs", default=8, show_default=True, help="Pairs of turns of each start.", type=click.IntRange(min=2)
)
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
def main(old: Path, loads: Sequence[str], starts: int, pairs: int, seconds: float) -> None:
    """Print a row for each load: rate and processor time per request of this checkout, as ratios to OLD's.

    A produce load writes all its bytes to disk: the data of a start is removed after it.
    """
    install_load_program()
    click.echo("| load | rate, new / old | processor time per request, new / old |\n| --- | --- | --- |")
    for name in loads or DEFAULT_LOADS:
        rate, cpu = compare(LOADS[name], old.resolve(), HERE, starts, pairs, seconds)
        click.echo(f"| {LOADS[name].title} | {rate} | {cpu} |")


if __name__ == "__main__":
    main()
