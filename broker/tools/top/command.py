"""`weir top`: the options and the output modes.

Imported by the command line. Full screen in a terminal; plain text, once, without one; repeated with
--batch, as JSON with --json.
"""

import json
import os
import shutil
import sys
import time
from io import TextIOWrapper
from typing import Any, Final

import click

from broker.tools.console_client import TIMEOUT_S, Console, console_options
from broker.tools.escaping import printable
from broker.tools.top.screen import View, bounded, draw, draw_all, press
from broker.tools.top.snapshot import InvalidSnapshotError, Snapshot, snapshot_of
from broker.tools.top.streams import Watch
from broker.tools.top.tables import CLIENTS, TABLES

INTERVAL_S: Final = 1.0
PLAIN_WIDTH: Final = 132
PLAIN_ROWS: Final = 20
CLIENTS_AT: Final = TABLES.index(CLIENTS)


@click.command()
@console_options
@click.option("--once", is_flag=True, help="Print plain text once, as without a terminal.")
@click.option("--batch", is_flag=True, help="Print plain text every second.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON every second; once with --once.")
def top(url: str, ca_file: str | None, once: bool, batch: bool, as_json: bool) -> None:
    """Show throttled clients, the rules nearest to their limits and the busiest clients, every second.

    Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN; a viewer's token is enough.
    """
    if once and batch:
        raise click.UsageError("--once and --batch exclude each other")
    console = Console.from_environment(url, ca_file)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every encoding has every character of a name
    in_terminal = not (once or batch or as_json)
    if in_terminal:
        # termios is not available on every platform.
        from broker.tools.top import terminal

        in_terminal = terminal.is_usable(os.environ)
        once = not in_terminal
    with Watch(console, View().server_sort(CLIENTS_AT)) as watch:
        first = watch.first(TIMEOUT_S)
        try:
            if in_terminal:
                _live(watch, url)
            else:
                _print(watch, url, first, once=once, as_json=as_json)
        except (KeyboardInterrupt, EOFError):
            sys.exit(0 if in_terminal else 130)
        except BrokenPipeError:
            # The reader has closed the pipe; the interpreter must not write to it at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _live(watch: Watch, url: str) -> None:
    from broker.tools.top.terminal import Terminal

    view = View()
    snapshot = _snapshot(watch.topics(), url)
    with Terminal(os.environ).opened() as terminal:
        next_at = time.monotonic() + INTERVAL_S
        while True:
            screen = draw(snapshot, view, *terminal.size, watch.trouble())
            terminal.show(screen.lines)
            for key in terminal.keys(max(0.0, next_at - time.monotonic())):
                pressed = press(bounded(view, screen.lasts), key)
                if pressed is None:
                    return
                view = pressed
            watch.sort_clients(view.server_sort(CLIENTS_AT))
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + INTERVAL_S
                topics = watch.topics()
                if not view.paused:
                    snapshot = _snapshot(topics, url)


def _print(watch: Watch, url: str, topics: dict[str, Any], *, once: bool, as_json: bool) -> None:
    """Print the metrics; while they are stale, print the reason to standard error once instead."""
    reported = None
    while True:
        trouble = watch.trouble()
        if trouble is None:
            reported = None
            sys.stdout.write(_json(topics) if as_json else _text(_snapshot(topics, url)))
            sys.stdout.flush()
        elif reported is None:
            reported = trouble
            click.echo(f"Stale: {printable(trouble)}; trying again", err=True)
        if once:
            return
        time.sleep(INTERVAL_S)
        topics = watch.topics()


def _snapshot(topics: dict[str, Any], url: str) -> Snapshot:
    try:
        return snapshot_of(topics)
    except InvalidSnapshotError as error:
        raise click.ClickException(
            f"the response from {url} is not from a console of this version"
        ) from error


def _text(snapshot: Snapshot) -> str:
    width = shutil.get_terminal_size((PLAIN_WIDTH, 0)).columns
    return "".join(f"{line.plain.rstrip()}\n" for line in draw_all(snapshot, View(), width, PLAIN_ROWS))


def _json(topics: dict[str, Any]) -> str:
    """Return the document of GET /events without the sparklines' histories, as printable ASCII.

    ASCII, so that no terminal obeys a name.
    """
    clients = [{key: row[key] for key in row if key != "history"} for row in topics["usage"]["items"]]
    document = topics | {"usage": topics["usage"] | {"items": clients}}
    return json.dumps(document, separators=(",", ":")).replace("\x7f", "\\u007f") + "\n"
