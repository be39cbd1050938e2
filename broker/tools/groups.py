"""`weir groups`: lists, resets and deletes the groups of a running broker, or of a gateway's cluster.

Imported by the command line. Uses the console's REST API.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click

from broker.common.quantities import group as grouped
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
    text_column,
)

GROUPS: Final = "/api/v1/groups"
MAX_SHIFT: Final = 2**63 - 1

_LIST: Final = (
    text_column("GROUP", "group_id"),
    text_column("TYPE", "group_type"),
    text_column("STATE", "state"),
    count_column("MEMBERS", "members"),
    count_column("LAG", "lag"),
)
_OFFSETS: Final = (
    text_column("TOPIC", "topic"),
    count_column("PARTITION", "partition"),
    count_column("COMMITTED", "committed"),
    count_column("END", "end"),
    count_column("LAG", "lag"),
    text_column("CLIENT ID", "client_id"),
)
_MEMBERS: Final = (
    text_column("CLIENT ID", "client_id"),
    text_column("ADDRESS", "address"),
    Column("PARTITIONS", lambda row: len(row["assigned"]), is_number=True),
    text_column("MEMBER", "member_id"),
)
_MOVES: Final = (
    text_column("TOPIC", "topic"),
    count_column("PARTITION", "partition"),
    count_column("FROM", "from"),
    count_column("TO", "to"),
    count_column("END", "end"),
)

_name = click.argument("name", metavar="GROUP", shell_complete=completed(GROUPS, "group_id"))


@click.group()
@console_options
@click.pass_context
def groups(context: click.Context, url: str, ca_file: str | None) -> None:
    """List, reset and delete groups. Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN."""
    context.obj = partial(Console.from_environment, url, ca_file)


@groups.command("list")
@click.option(
    "--search", default="", metavar="TEXT", help="Only groups with TEXT in their id, state or type."
)
@output_option
@pass_console
def list_groups(console: Console, search: str, output: Output) -> None:
    """List groups of all types with their lag."""
    rows = list(console.each(GROUPS, {"search": search}))
    print_rows(rows, _LIST, output, empty="No group matches." if search else "No group exists.")


@groups.command()
@_name
@output_option
@pass_console
def describe(console: Console, name: str, output: Output) -> None:
    """Show a group with its members and its lag in each partition, which CSV has alone."""
    with _missing(name):
        found = console.request("GET", _path(name))
    if output is Output.JSON:
        print_json(found)
        return
    owners = {
        (each["topic"], each["partition"]): member["client_id"]
        for member in found["consumers"]
        for each in member["assigned"]
    }
    offsets = [
        row | {"client_id": owners.get((row["topic"], row["partition"]), "")} for row in found["offsets"]
    ]
    if output is Output.CSV:
        print_rows(offsets, _OFFSETS, output)
        return
    facts = {
        "Group": printable(found["group_id"]),
        "Type": found["group_type"],
        "State": found["state"],
        "Assignor": printable(found["assignor"]) if found["assignor"] else "",
        "Lag": _lag_text(found),
    }
    print_facts({fact: text for fact, text in facts.items() if text})
    click.echo()
    print_rows(found["consumers"], _MEMBERS, output, empty="The group has no members.")
    click.echo()
    print_rows(offsets, _OFFSETS, output, empty="The group has committed no offset.")


def _lag_text(found: Mapping[str, Any]) -> str:
    if found["lag"] is None:
        return "no offset is committed"
    return f"{grouped(found['lag'])}{'' if found['lag_is_known'] else ', without the unreadable partitions'}"


@groups.command()
@_name
@click.option("--to-earliest", is_flag=True, help="To the first record of each partition.")
@click.option("--to-latest", is_flag=True, help="To the end of each partition.")
@click.option("--to-offset", type=click.IntRange(0, MAX_SHIFT), metavar="N", help="To an offset.")
@click.option(
    "--to-datetime", metavar="TIME", help="To a time, such as 2026-11-30T12:00; UTC unless it says."
)
@click.option("--shift-by", type=click.IntRange(-MAX_SHIFT, MAX_SHIFT), metavar="N", help="By N records.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Only this topic, or these partitions of it. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@output_option
@pass_console
def reset(
    console: Console, name: str, topics: Sequence[str], dry_run: bool, output: Output, **targets: Any
) -> None:
    """Set the committed offsets of a group without members, as in: weir groups reset GROUP --to-earliest"""
    body: dict[str, Any] = {"to": _target(targets)}
    if topics:
        body["topics"] = list(map(_topic, topics))
    with _missing(name):
        found = console.request("POST", _path(name, "/offsets:reset"), {"validate_only": dry_run}, body)
    print_rows(found["items"], _MOVES, output, empty="The group has committed no offset; nothing to change.")
    if output is Output.TABLE and found["items"]:
        click.echo("Nothing was changed." if dry_run else f"{printable(name)}: done")


def _target(targets: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target as the REST API expects it. Raises click.UsageError unless there is exactly one."""
    made: list[dict[str, Any]] = []
    for name in ("earliest", "latest"):
        if targets[f"to_{name}"]:
            made.append({name: True})
    if targets["to_offset"] is not None:
        made.append({"offset": targets["to_offset"]})
    if targets["to_datetime"] is not None:
        made.append({"timestamp_ms": _moment(targets["to_datetime"])})
    if targets["shift_by"] is not None:
        made.append({"shift": targets["shift_by"]})
    if len(made) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by"
        )
    return made[0]


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{printable(text)}: expected a time, such as 2026-11-30T12:00 or 2026-11-30T12:00+01:00"
        ) from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def _topic(text: str) -> dict[str, Any]:
    topic, colon, partitions = text.partition(":")
    if not colon:
        return {"topic": topic}
    numbers = partitions.split(",")
    if not all(each.isascii() and each.isdecimal() and len(each) <= 10 for each in numbers):
        raise click.UsageError(f"{printable(text)}: expected TOPIC or TOPIC:PARTITION,...")
    return {"topic": topic, "partitions": list(map(int, numbers))}


@groups.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="GROUP...", shell_complete=completed(GROUPS, "group_id")
)
@pass_console
def delete(console: Console, names: Sequence[str]) -> None:
    """Delete groups without members, with their committed offsets."""
    for name in names:
        with _missing(name):
            console.request("DELETE", _path(name))
        click.echo(f"{printable(name)}: deleted")


def _path(name: str, more: str = "") -> str:
    return f"{GROUPS}/{in_path(name)}{more}"


def _missing(name: str) -> Any:
    return missing(f"the group {printable(name)} does not exist", "UNKNOWN_TOPIC_OR_PARTITION")
