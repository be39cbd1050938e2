"""`weir simulate`: shows the effect of quotas on a load, without a broker.

Imported by the command line. Reads the files, runs broker.simulation and prints the result.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from broker.common.strict_yaml import BadFileError
from broker.simulation.engine import MAX_EVENTS, TooManyEventsError, run_scenario
from broker.simulation.report import any_throttled, in_csv, in_json, in_table
from broker.simulation.scenario_file import read_limits, read_scenario
from broker.simulation.summary import SimulationSummary, summary_of

FORMATS: Final[dict[str, Callable[[SimulationSummary, SimulationSummary | None], str]]] = {
    "table": in_table,
    "json": in_json,
    "csv": in_csv,
}
THROTTLED_STATUS: Final = 3

_File = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_File)
@click.option("--quotas", type=_File, help="A quota file to use instead of the quotas in FILE.")
@click.option("--compare", type=_File, metavar="QUOTAS", help="Simulate the load under this quota file too.")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--check", is_flag=True, help=f"Exit with status {THROTTLED_STATUS} if the last quotas throttle a client."
)
@click.option(
    "--max-requests",
    default=MAX_EVENTS,
    show_default=True,
    help="Give up after this many simulated requests.",
)
def simulate(
    file: Path,
    quotas: Path | None,
    compare: Path | None,
    form: str,
    as_json: bool,
    check: bool,
    max_requests: int,
) -> None:
    """Show the effect of quotas on the load that FILE describes."""
    try:
        scenario = read_scenario(file)
        if quotas is not None:
            scenario = replace(scenario, limits=read_limits(quotas))
        before = summary_of(run_scenario(scenario, max_requests))
        after = None
        if compare is not None:
            compared = replace(scenario, limits=read_limits(compare))
            after = summary_of(run_scenario(compared, max_requests))
    except (BadFileError, TooManyEventsError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(FORMATS["json" if as_json else form](before, after))
    if check and any_throttled(before if after is None else after):
        sys.exit(THROTTLED_STATUS)
