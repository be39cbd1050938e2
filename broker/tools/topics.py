"""`weir topics`: lists, creates, changes and deletes topics of a running broker, or of a gateway's cluster.

Imported by the command line. Uses the console's REST API.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from broker.common.quantities import QuantityError, group, read_config, write_config
from broker.tools.console_client import (
    Console,
    completed,
    console_options,
    in_path,
    missing,
    pass_console,
)
from broker.tools.escaping import printable
from broker.tools.output import (
    Column,
    Output,
    count_column,
    output_option,
    print_facts,
    print_json,
    print_rows,
    size_column,
    text_column,
)
from broker.tools.top.tables import size

TOPICS: Final = "/api/v1/topics"

_LIST: Final = (
    text_column("TOPIC", "name"),
    count_column("PARTITIONS", "partitions"),
    count_column("RECORDS", "records"),
    size_column("SIZE", "size_bytes"),
    Column("INTERNAL", lambda row: row["internal"], lambda row: "yes" if row["internal"] else ""),
)
_PARTITIONS: Final = (
    count_column("PARTITION", "index"),
    count_column("START", "start"),
    count_column("END", "end"),
    size_column("SIZE", "size_bytes"),
    count_column("SEGMENTS", "segments"),
    text_column("OFFLINE", "offline"),
)
_CLIENTS: Final = (
    text_column("CLIENT ID", "client_id"),
    text_column("PRINCIPAL", "principal"),
    text_column("SOFTWARE", "software_name"),
    text_column("VERSION", "software_version"),
    count_column("CONNECTIONS", "connections"),
    count_column("WRITING", "writing"),
    count_column("READING", "reading"),
)
_UPSTREAM: Final = (
    *_PARTITIONS[:4],
    count_column("LEADER", "leader"),
    Column("REPLICAS", lambda row: _nodes(row["replicas"])),
    Column("ISR", lambda row: _nodes(row["isr"])),
)
_CONFIGS: Final = (
    text_column("CONFIG", "name"),
    Column("VALUE", lambda row: row["value"], lambda row: _value(row["name"], row["value"])),
    text_column("SOURCE", "source"),
)

_name = click.argument("name", shell_complete=completed(TOPICS, "name"))
_dry_run = click.option("--dry-run", is_flag=True, help="Only check; change nothing.")


@click.group()
@console_options
@click.pass_context
def topics(context: click.Context, url: str, ca_file: str | None) -> None:
    """List, create, change and delete topics. Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN."""
    context.obj = partial(Console.from_environment, url, ca_file)


@topics.command("list")
@click.option("--search", default="", metavar="TEXT", help="Only topics with TEXT in their name.")
@output_option
@pass_console
def list_topics(console: Console, search: str, output: Output) -> None:
    """List topics; internal ones last."""
    rows = list(console.each(TOPICS, {"search": search}))
    print_rows(rows, _LIST, output, empty="No topic has this name." if search else "No topic exists.")


@topics.command()
@_name
@output_option
@pass_console
def describe(console: Console, name: str, output: Output) -> None:
    """Show a topic with its own settings and its partitions, which CSV has alone."""
    found = _asked(console, name, "GET")
    partitions = found["partition_list"]
    is_upstream = any("replicas" in each for each in partitions)
    columns = _UPSTREAM if is_upstream else _PARTITIONS
    if output is Output.JSON:
        print_json(found)
        return
    if output is Output.TABLE:
        total = found["size_bytes"]
        facts = {
            "Topic": printable(found["name"]),
            "Topic id": found["topic_id"],
            "Partitions": group(found["partitions"]),
            "Records": "-" if found["records"] is None else group(found["records"]),
            "Size": "-" if total is None else size(total),
        }
        for key, value in found["configs"].items():
            facts[printable(key)] = _value(key, value)
        print_facts(facts)
        click.echo()
    print_rows(partitions, columns, output)


@topics.command()
@_name
@output_option
@pass_console
def clients(console: Console, name: str, output: Output) -> None:
    """List the connected clients that have written to a topic or read from it; not at a gateway."""
    with missing(f"the topic {printable(name)} does not exist"):
        rows = list(console.each(_path(name, "/clients")))
    print_rows(rows, _CLIENTS, output, empty="No connected client uses this topic.")


@topics.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 2**31 - 1), help="Default: the broker's.")
@click.option("--replication-factor", type=click.IntRange(1, 32_767), help="Default: the broker's.")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting. Repeatable.")
@_dry_run
@pass_console
def create(
    console: Console,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[str],
    dry_run: bool,
) -> None:
    """Create a topic, as in: weir topics create orders --partitions 6 --config retention.ms=7d"""
    body: dict[str, Any] = {"name": name, "configs": dict(map(_setting, configs))}
    if partitions is not None:
        body["partitions"] = partitions
    if replication_factor is not None:
        body["replication_factor"] = replication_factor
    made = console.request("POST", TOPICS, {"validate_only": dry_run}, body)
    count = made["partitions"]
    would = "would be created" if dry_run else "created"
    click.echo(f"{printable(name)}: {would} with {group(count)} partition{'s' * (count != 1)}")


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completed(TOPICS, "name"))
@pass_console
def delete(console: Console, names: Sequence[str]) -> None:
    """Delete topics with their records. This cannot be undone."""
    for name in names:
        _asked(console, name, "DELETE")
        click.echo(f"{printable(name)}: deleted")


@topics.group()
def config() -> None:
    """List, set and remove the settings of a topic."""


@config.command("list")
@_name
@click.option("--all", "is_all", is_flag=True, help="Also settings that the topic takes from the broker.")
@output_option
@pass_console
def list_config(console: Console, name: str, is_all: bool, output: Output) -> None:
    """List the topic's own settings."""
    with missing(f"the topic {printable(name)} does not exist"):
        rows = [row for row in console.each(_path(name, "/configs")) if is_all or row["source"] == "topic"]
    print_rows(rows, _CONFIGS, output, empty=f"{printable(name)} has no setting of its own.")


@config.command("set")
@_name
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@_dry_run
@pass_console
def set_config(console: Console, name: str, settings: Sequence[str], dry_run: bool) -> None:
    """Set settings, as in: weir topics config set orders retention.ms=7d segment.bytes='128 MiB'"""
    ops = [dict(zip(("key", "value"), _setting(text), strict=True)) for text in settings]
    _change(console, name, ops, dry_run=dry_run)


@config.command("remove")
@_name
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_dry_run
@pass_console
def remove_config(console: Console, name: str, keys: Sequence[str], dry_run: bool) -> None:
    """Remove the topic's own settings; the broker's apply again."""
    own = _asked(console, name, "GET")["configs"]
    for key in keys:
        if key not in own:
            raise click.ClickException(f"{printable(name)} has no setting {printable(key)} of its own")
    _change(console, name, [{"key": key, "remove": True} for key in keys], dry_run=dry_run)


def _change(console: Console, name: str, ops: Sequence[Mapping[str, Any]], *, dry_run: bool) -> None:
    with missing(f"the topic {printable(name)} does not exist"):
        console.request("PATCH", _path(name, "/configs"), {"validate_only": dry_run}, {"ops": ops})
    click.echo(f"{printable(name)}: {'accepted, not changed' if dry_run else 'done'}")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{printable(text)}: expected KEY=VALUE")
    try:
        return key, read_config(key, value)
    except QuantityError as error:
        raise click.UsageError(f"{printable(text)}: {error}") from error


def _asked(console: Console, name: str, method: str) -> Any:
    with missing(f"the topic {printable(name)} does not exist"):
        return console.request(method, _path(name))


def _path(name: str, more: str = "") -> str:
    return f"{TOPICS}/{in_path(name)}{more}"


def _value(key: str, text: str | None) -> str:
    return "-" if text is None else printable(write_config(key, text))


def _nodes(nodes: Sequence[int] | None) -> str:
    return ",".join(map(str, nodes or ()))
