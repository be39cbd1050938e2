"""`weir top`: the options, and which of its forms is asked for.

Imported by the command line. Full screen in a terminal; plain text, once, where there is none; again and
again with --batch, as JSON with --json. Knows neither escape sequences nor what the figures mean.
"""

import json
import os
import shutil
import sys
import time
from typing import Any, Final

import click

from broker.commands.console_client import PATIENCE_S, Console, console_options
from broker.commands.plain import shown
from broker.commands.top.picture import NoPictureError, Picture, picture_of
from broker.commands.top.screen import all_of, draw, text_of
from broker.commands.top.tables import CLIENTS, TABLES
from broker.commands.top.view import View, press, settled
from broker.commands.top.watch import Watch

EVERY_S: Final = 1.0
PLAIN_WIDTH: Final = 132
PLAIN_ROWS: Final = 20
CLIENTS_AT: Final = TABLES.index(CLIENTS)


@click.command()
@console_options
@click.option("--once", is_flag=True, help="Plain text, once; the same as where there is no terminal.")
@click.option("--batch", is_flag=True, help="Plain text, every second.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON every second; once with --once.")
def top(url: str, ca_file: str | None, once: bool, batch: bool, as_json: bool) -> None:
    """Who is held now, the rules nearest to their limits, the busiest clients, every second. The token is
    read from WEIR_TOKEN or WEIR_ADMIN_TOKEN; a viewer's will do.
    """
    if once and batch:
        raise click.UsageError("--once and --batch exclude each other")
    console = Console.from_environment(url, ca_file)
    in_terminal = not (once or batch or as_json)
    if in_terminal:
        # The modes of terminals are not everywhere that the rest is.
        from broker.commands.top import terminal

        in_terminal = terminal.is_usable(os.environ)
        once = not in_terminal
    with Watch(console, View().server_sort(CLIENTS_AT)) as watch:
        first = watch.first(PATIENCE_S)
        try:
            if in_terminal:
                _live(watch, url)
            else:
                _print(watch, url, first, once=once, as_json=as_json)
        except (KeyboardInterrupt, EOFError):
            sys.exit(0 if in_terminal else 130)
        except BrokenPipeError:
            # Whoever read it has seen enough; nothing more is to be written at the end either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _live(watch: Watch, url: str) -> None:
    from broker.commands.top.terminal import open_terminal

    view = View()
    picture = _picture(watch.topics(), url)
    with open_terminal(os.environ) as terminal:
        next_at = time.monotonic() + EVERY_S
        while True:
            screen = draw(picture, view, *terminal.size, watch.trouble())
            terminal.show(screen.lines)
            for key in terminal.keys(max(0.0, next_at - time.monotonic())):
                pressed = press(settled(view, screen.lasts), key)
                if pressed is None:
                    return
                view = pressed
            watch.sort_clients(view.server_sort(CLIENTS_AT))
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + EVERY_S
                topics = watch.topics()
                if not view.paused:
                    picture = _picture(topics, url)


def _print(watch: Watch, url: str, topics: dict[str, Any], *, once: bool, as_json: bool) -> None:
    """Nothing while the figures are stale; why stands on the standard error output, once."""
    said = None
    while True:
        trouble = watch.trouble()
        if trouble is None:
            said = None
            sys.stdout.write(_json(topics) if as_json else _text(_picture(topics, url)))
            sys.stdout.flush()
        elif said is None:
            said = trouble
            click.echo(f"Stale: {shown(trouble)}; trying again", err=True)
        if once:
            return
        time.sleep(EVERY_S)
        topics = watch.topics()


def _picture(topics: dict[str, Any], url: str) -> Picture:
    try:
        return picture_of(topics)
    except NoPictureError as error:
        raise click.ClickException(f"what answers at {url} is no console of this version") from error


def _text(picture: Picture) -> str:
    width = shutil.get_terminal_size((PLAIN_WIDTH, 0)).columns
    lines = all_of(picture, View(), width, PLAIN_ROWS)
    return "".join(f"{text_of(line).rstrip()}\n" for line in lines)


def _json(topics: dict[str, Any]) -> str:
    """As GET /events has it, without the histories that sparklines are drawn of. Printable ASCII alone, so
    that no terminal obeys a name.
    """
    clients = [{key: row[key] for key in row if key != "history"} for row in topics["usage"]["items"]]
    document = topics | {"usage": topics["usage"] | {"items": clients}}
    return json.dumps(document, separators=(",", ":")).replace("\x7f", "\\u007f") + "\n"
