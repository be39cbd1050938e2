"""`weir console-link`: a link that signs one browser in to the console of a broker that runs on this machine.

Imported by the command line. It takes the arguments of `weir serve`, so that it finds the same directory, and
reads there what the broker has left for it (broker.security.console_link_file). It asks the broker nothing.
"""

import os
import time
from pathlib import Path

import click

from broker.config.load import load
from broker.errors import ConfigError
from broker.security.console_link_file import FILE_NAME, read_console_link
from broker.security.console_links import link_with, make_code


@click.command("console-link")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Wins over the file. Repeatable."
)
def console_link(file: Path | None, overrides: tuple[str, ...]) -> None:
    """Print a link that signs one browser in, once, within 15 minutes.

    FILE and --override are those of `weir serve`: they say where the broker keeps its data. Needs the account
    that the broker runs under.
    """
    try:
        directory = load(file, overrides, os.environ).config.log.dirs[0]
        link = read_console_link(directory)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    except FileNotFoundError as error:
        detail = f"no broker with a console runs in {directory}; give the FILE and --override of its start"
        raise click.ClickException(detail) from error
    except ValueError as error:
        raise click.ClickException(f"{Path(directory, FILE_NAME)} is no file of a broker") from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    click.echo(link_with(link.url, make_code(link.key, time.monotonic_ns() // 1_000_000)))
