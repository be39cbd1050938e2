"""`weir console-link`: prints a link that logs one browser in to the console of a local broker.

Imported by the command line. Takes the arguments of `weir serve` to find the same directory, and reads the
file that the broker keeps there (broker.security.console_links). Does not contact the broker.
"""

import os
import time
from pathlib import Path

import click

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.security.console_links import FILE_NAME, link_with, make_code, read_console_link


@click.command("console-link")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides the file. Repeatable."
)
def console_link(file: Path | None, overrides: tuple[str, ...]) -> None:
    """Print a link that logs one browser in, once, within 15 minutes.

    FILE and --override are those of `weir serve` and locate the broker's data. Needs the account that runs
    the broker.
    """
    try:
        directory = load(file, overrides, os.environ).config.log.dirs[0]
        link = read_console_link(directory)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    except FileNotFoundError as error:
        detail = f"no running broker with a console in {directory}; give the FILE and --override of its start"
        raise click.ClickException(detail) from error
    except ValueError as error:
        raise click.ClickException(f"{Path(directory, FILE_NAME)} is not a broker's link file") from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    click.echo(link_with(link.url, make_code(link.key, time.monotonic_ns() // 1_000_000)))
