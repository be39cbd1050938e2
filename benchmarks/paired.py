"""Compares two checkouts of Weir under the same loads: `python -m benchmarks.paired OLD [LOAD]...`.

Both brokers run during a load, which is sent to one and then to the other in turns of a fraction of a
second, so that changes of the machine's speed affect both alike. The result is the median of the ratios of
neighbouring turns. OLD is a checkout with its own .venv: `git worktree add`, then `make .venv/dev` in it.
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
    """New to old: the median over all pairs, and its standard error."""

    median: float
    error: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ± {self.error:.3f}"


def ratio(old: Sequence[float], new: Sequence[float]) -> Ratio:
    """Return the ratio of `old` and `new`, which have one value for each pair; at least two pairs are
    needed.
    """
    ratios = [after / before for before, after in zip(old, new, strict=True)]
    lower, _, upper = statistics.quantiles(ratios, n=4)
    # For a normal distribution the standard deviation is IQR / 1.349, and the standard error of the median is
    # 1.253 times that of the mean.
    error = 1.253 * (upper - lower) / 1.349 / len(ratios) ** 0.5
    return Ratio(statistics.median(ratios), error)


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


def compare(load: Load, old: Path, new: Path, pairs: int, seconds: float) -> tuple[Ratio, Ratio]:
    """Return the ratios of rates and of processor time per request, new to old.

    The old broker is started first for half of the pairs, and last for the others: the order alone can change
    the rate of a broker by a tenth.
    """
    turns: dict[str, list[Turn]] = {"old": [], "new": []}
    checkouts = [("old", old), ("new", new)]
    for count in (pairs - pairs // 2, pairs // 2):
        with contextlib.ExitStack() as stack:
            order = [(name, stack.enter_context(started(each, load))) for name, each in checkouts]
            for _ in range(count):
                for name, (broker, topic) in order:
                    turns[name].append(turn(load, broker, topic, seconds))
                order.reverse()
        checkouts.reverse()
    was, now = turns["old"], turns["new"]
    return (
        ratio([each.rate for each in was], [each.rate for each in now]),
        ratio([each.cpu_us for each in was], [each.cpu_us for each in now]),
    )


@click.command()
@click.argument("old", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("loads", nargs=-1, type=click.Choice(sorted(LOADS)))
@click.option("--pairs", default=60, show_default=True, type=click.IntRange(min=2))
@click.option("--seconds", default=0.3, show_default=True, help="Counted seconds of one turn.")
def main(old: Path, loads: Sequence[str], pairs: int, seconds: float) -> None:
    """Print a row for each load: rate and processor time per request of this checkout, as ratios to OLD's.

    A produce load writes all its bytes to disk: 60 pairs of 1 MB requests take some 40 GB of /tmp.
    """
    install_load_program()
    click.echo("| load | rate, new / old | processor time per request, new / old |\n| --- | --- | --- |")
    for name in loads or DEFAULT_LOADS:
        rate, cpu = compare(LOADS[name], old.resolve(), HERE, pairs, seconds)
        click.echo(f"| {LOADS[name].title} | {rate} | {cpu} |")


if __name__ == "__main__":
    main()
