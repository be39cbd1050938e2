"""The command line of the soak. Exit status: 0 passed, 1 failed, 2 wrong arguments."""

import secrets
import sys
import tempfile
from pathlib import Path

import click
import trio

from benchmarks.process import free_port
from benchmarks.soak.disk import disk
from benchmarks.soak.run import Options, Soak


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="Of load and faults; days have 1440 each.")
@click.option("--steady", type=float, help="The last minutes, without kills.  [default: a third of all]")
@click.option(
    "--kill-every", default=3.0, show_default=True, help="Minutes between two kills, on average; 0: none."
)
@click.option("--disk-every", default=7.0, show_default=True, help="Minutes between two full disks; 0: none.")
@click.option(
    "--clock-every", default=4.0, show_default=True, help="Minutes between two clock steps; 0: none."
)
@click.option("--pages", default=50, show_default=True, help="Pages of the console that are open.")
@click.option("--seed", default=0, help="Of the times and values that are chosen at random; 0: a new one.")
@click.option(
    "--lose", is_flag=True, help="Cut off acknowledged records at the first kill: the soak must fail."
)
def main(seed: int, steady: float | None, minutes: float, **chosen: float) -> None:
    """Run a broker under a mixed load, with kill -9, full disks and clock steps, and check it."""
    seed = seed or secrets.randbelow(1_000_000) + 1
    steady = min(minutes / 3 if steady is None else steady, minutes)
    options = Options(minutes=minutes, steady=steady, seed=seed, **chosen)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as scratch, disk(Path(scratch) / "disk") as place:
        soak = Soak(options, place, Path(scratch), free_port())
        passed = trio.run(soak.run)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
