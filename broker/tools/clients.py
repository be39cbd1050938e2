"""`weir clients`: lists the open connections of a running broker or gateway.

Imported by the command line. Uses the console's REST API.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import click

from broker.common.quantities import group
from broker.tools.console_client import Console, completed, console_options, pass_console
from broker.tools.escaping import printable
from broker.tools.output import (
    Column,
    Output,
    output_option,
    print_facts,
    print_rows,
    text_column,
)
from broker.tools.top.tables import size

CONNECTIONS: Final = "/api/v1/connections"
THROTTLED: Final = "/api/v1/throttled-channels"

_COLUMNS: Final = (
    text_column("CLIENT ID", "client_id"),
    text_column("PRINCIPAL", "principal"),
    text_column("ADDRESS", "address"),
    text_column("SOFTWARE", "software_name"),
    text_column("VERSION", "software_version"),
    Column("THROTTLED", lambda row: bool(row["throttled"]), lambda row: "yes" if row["throttled"] else "no"),
    text_column("CONNECTION", "connection_id"),
)


@click.group()
@console_options
@click.pass_context
def clients(context: click.Context, url: str, ca_file: str | None) -> None:
    """List the clients that are connected. Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN."""
    context.obj = partial(Console.from_environment, url, ca_file)


@clients.command("list")
@click.option(
    "--search", default="", metavar="TEXT", help="Only connections with TEXT in one of their names."
)
@output_option
@pass_console
def list_clients(console: Console, search: str, output: Output) -> None:
    """List open connections."""
    rows = _connections(console, search)
    empty = "No connection has this text in a name." if search else "No client is connected."
    print_rows(rows, _COLUMNS, output, empty=empty)


@clients.command()
@click.argument("name", shell_complete=completed(CONNECTIONS, "client_id"))
@output_option
@pass_console
def describe(console: Console, name: str, output: Output) -> None:
    """Show the connections of a client id, or one connection by its id."""
    found = _connections(console, name)
    rows = [row for row in found if name in (row["client_id"], row["connection_id"])]
    if not rows:
        raise click.ClickException(f"no connection has the client id or the id {printable(name)}")
    if output is not Output.TABLE:
        print_rows(rows, _COLUMNS, output)
        return
    for index, row in enumerate(rows):
        if index:
            click.echo()
        print_facts(_facts(row))


def _connections(console: Console, search: str) -> list[dict[str, Any]]:
    """Return the connections, each with `throttled`: the quotas that it is throttled by now."""
    throttled: dict[tuple[str, str], list[str]] = {}
    for channel in console.each(THROTTLED):
        key = channel["connection_id"], channel.get("gateway", "")
        throttled.setdefault(key, []).append(channel["quota_type"])
    rows = console.each(CONNECTIONS, {"search": search})
    return [row | {"throttled": throttled.get((row["connection_id"], row["gateway"]), [])} for row in rows]


def _facts(row: Mapping[str, Any]) -> dict[str, str]:
    software = " ".join(filter(None, (row["software_name"], row["software_version"])))
    facts = {
        "Client id": printable(row["client_id"]),
        "Connection": printable(row["connection_id"]),
        "Principal": printable(row["principal"]),
        "Address": printable(row["address"]),
        "Software": printable(software) if software else "unknown",
        "Listener": f"{printable(row['listener'])} ({row['protocol']})",
        "TLS": row["tls"] or "no",
        "Requests": group(row["requests"]),
        "Received": size(row["bytes_in"]),
        "Sent": size(row["bytes_out"]),
        "Throttled": ", ".join(row["throttled"]) or "no",
        "Obeys throttles": {True: "yes", False: "no", None: "never throttled"}[row["obeys"]],
        "Upstream": row["upstream"],
        "Gateway": row["gateway"],
        "Balancer": row["proxy"],
    }
    return {name: value for name, value in facts.items() if value}
