"""`weir quotas`: the quotas of a running broker from a shell, and from a file that is kept with other
configuration.

Imported by the command line. A client of the console's REST API, with an administrator's token; knows
nothing else of the broker but what its limits are called. Files: broker.commands.quotas_yaml.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from broker.commands.console_client import Console, RefusedError, console_options
from broker.commands.plain import in_words, shown
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS

QUOTAS: Final = "/api/v1/client-quotas"
PAGE: Final = 1_000

Entity = Mapping[str, str | None]

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_OF_AN_OP: Final = re.compile(r"/entries/0/ops/([0-9]+)(/.*)?")


@click.group()
@console_options
@click.pass_context
def quotas(context: click.Context, url: str, ca_file: str | None) -> None:
    """See and change the quotas of a running broker. The token is read from WEIR_TOKEN or
    WEIR_ADMIN_TOKEN.
    """
    context.obj = partial(Console.from_environment, url, ca_file)


def _pass_console(command: Any) -> Any:
    """Hands the console to a command when it is run: its help needs no token."""

    @wraps(command)
    def with_console(make: Callable[[], Console], *arguments: Any, **options: Any) -> Any:
        return command(make(), *arguments, **options)

    return click.pass_obj(with_console)


def _entity_options(command: Any) -> Any:
    for decorate in (
        click.option("--user", help="A user."),
        click.option("--user-default", is_flag=True, help="All users without a rule of their own."),
        click.option("--client-id", help="A client id."),
        click.option("--client-id-default", is_flag=True, help="All client ids without a rule of their own."),
        click.option("--ip", help="An address."),
        click.option("--ip-default", is_flag=True, help="All addresses without a rule of their own."),
    ):
        command = decorate(command)
    return command


def entity_of(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Raises click.UsageError where nothing, or a name and its default, are asked for."""
    entity: dict[str, str | None] = {}
    for kind in ("user", "client-id", "ip"):
        name, is_default = options[kind.replace("-", "_")], options[f"{kind.replace('-', '_')}_default"]
        if name is not None and is_default:
            raise click.UsageError(f"--{kind} and --{kind}-default exclude each other")
        if is_default:
            entity[kind] = None
        elif name is not None:
            entity[kind] = name
    if not entity:
        raise click.UsageError("whose quota? --user, --client-id, --ip or one of their defaults")
    return entity


@quotas.command("list")
@click.option("--json", "as_json", is_flag=True, help="As the REST API answers.")
@_pass_console
def list_quotas(console: Console, as_json: bool) -> None:
    """Every limit, and what is used of it now."""
    rows: list[dict[str, Any]] = []
    while True:
        page = console.ask("GET", QUOTAS, {"offset": len(rows), "limit": PAGE})
        rows += page["items"]
        if not page["items"] or len(rows) >= page["of"]:
            break
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [("ENTITY", "LIMIT", "VALUE", "USED", "HELD", "SHADOW")]
    for row in rows:
        for key, limit in row["limits"].items():
            used = "-" if limit["used"] is None else f"{limit['used']:.0%}"
            value, held = number(limit["value"]), str(limit["throttled"])
            table.append((in_words(row["entity"]), key, value, used, held, _shadow_words(limit)))
    _print_table(table)


def _shadow_words(limit: Mapping[str, Any]) -> str:
    would = limit.get("would_have")
    return "" if would is None else f"{would['times']} times, {would['held_ms'] / 1000:.1f} s"


@quotas.command("set")
@_entity_options
@click.option(
    "--shadow/--enforce", default=None, help="Only measure the entity's limits; or enforce them again."
)
@click.argument("limits", nargs=-1, metavar="KEY=VALUE...")
@_pass_console
def set_quotas(console: Console, /, limits: Sequence[str], shadow: bool | None, **options: Any) -> None:
    """Set limits of one entity, as in: weir quotas set --user alice producer_byte_rate=1000000"""
    if not limits and shadow is None:
        raise click.UsageError("what limit? KEY=VALUE, --shadow or --enforce")
    ops = [dict(zip(("key", "value"), _limit(text), strict=True)) for text in limits]
    _alter(console, entity_of(options), ops, {} if shadow is None else {"shadow": shadow})


@quotas.command("remove")
@_entity_options
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_pass_console
def remove_quotas(console: Console, /, keys: Sequence[str], **options: Any) -> None:
    """Remove limits of one entity."""
    known = (*CLIENT_KEYS, *IP_KEYS)
    for key in keys:
        # Kafka takes any key for one that is not set; here it is a slip of the pen.
        if key not in known:
            raise click.UsageError(f"{shown(key)} is no limit; there are {', '.join(known)}")
    _alter(console, entity_of(options), [{"key": key, "remove": True} for key in keys])


def _limit(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    number_of = _NUMBER.fullmatch(value)
    if not key or number_of is None:
        raise click.UsageError(f"{shown(text)}: not KEY=VALUE with a number")
    return key, float(value) if number_of[1] or number_of[2] else int(value)


def _alter(
    console: Console, entity: Entity, ops: Sequence[Mapping[str, Any]], more: Mapping[str, Any] | None = None
) -> None:
    try:
        answer = console.ask(
            "PATCH", QUOTAS, body={"entries": [{"entity": entity, "ops": ops, **(more or {})}]}
        )
    except RefusedError as error:
        found = _OF_AN_OP.match(error.where)
        named = f"{shown(ops[int(found[1])]['key'])} " if found else ""
        raise click.ClickException(f"{in_words(entity)}: {named}{error.detail}") from error
    for result in answer["results"]:
        for warning in result["warnings"]:
            click.echo(f"Warning: {shown(warning)}", err=True)
    click.echo(f"{in_words(entity)}: done")


@quotas.command()
@click.option("--user", default="", help="The user; nobody in particular if left out.")
@click.option("--client-id", default="", help="The client id.")
@click.option("--ip", default="", help="An address, to be told its limit too.")
@click.option(
    "--if",
    "edits",
    multiple=True,
    metavar="ENTITY:LIMITS",
    help="What it would be if: user=alice,client-id:producer_byte_rate=1000,request_percentage= (a name left "
    "out is the default, a value left out removes, shadow and enforce stand among the limits). Repeatable.",
)
@_pass_console
def resolve(console: Console, user: str, client_id: str, ip: str, edits: Sequence[str]) -> None:
    """Which rule governs a client, which were looked for before it, what it does now, and what would change
    if.
    """
    if edits:
        body = {"user": user, "client_id": client_id, "ip": ip, "if": [_edit(text) for text in edits]}
        found = console.ask("POST", f"{QUOTAS}:resolve", body=body)
    else:
        found = console.ask("GET", f"{QUOTAS}:resolve", {"user": user, "client-id": client_id, "ip": ip})
    for limit in found["limits"]:
        click.echo(f"{limit['key']}: {_state_words(limit)}")
        if "callback" in limit:
            click.echo(f"  -> {_in_words(limit['callback'])}")
        for probe in limit["probes"]:
            mark = "->" if probe["matched"] else "  "
            value = "-" if probe["value"] is None else number(probe["value"])
            click.echo(f"  {mark} {in_words(probe['entity'])}: {value}{' (shadow)' * probe['shadow']}")
        if "if" in limit:
            then = limit["if"]
            by = f" by {in_words(then['matched'])}" if "matched" in then else ""
            click.echo(f"  then: {_state_words(then)}{by}")


def _state_words(state: Mapping[str, Any]) -> str:
    words = "no limit" if state["bound"] is None else number(state["bound"])
    if state["observed"] is not None:
        words += f", {state['observed']:.6g} used"
    if state["wait_ms"]:
        would = "would be counted as held" if state["shadow"] else "held"
        words += f", {would} for {state['wait_ms'] / 1000:.1f} s at this rate"
    return words


def _edit(text: str) -> dict[str, Any]:
    """user=alice,client-id:producer_byte_rate=1000 as the REST API takes it. Raises click.UsageError."""
    names, colon, limits = text.rpartition(":")
    if not colon:
        raise click.UsageError(f"{text}: not ENTITY:LIMITS")
    entity: dict[str, str | None] = {}
    for part in names.split(","):
        kind, equals, name = part.partition("=")
        if kind in entity:
            raise click.UsageError(f"{text}: {kind} is there twice")
        entity[kind] = name if equals else None
    words = limits.split(",")
    marks = [word == "shadow" for word in words if word in ("shadow", "enforce")]
    ops = [_op(word) for word in words if word not in ("shadow", "enforce")]
    return {"entity": entity, "ops": ops} | ({"shadow": marks[-1]} if marks else {})


def _op(text: str) -> dict[str, Any]:
    if text.endswith("="):
        return {"key": text[:-1], "remove": True}
    return dict(zip(("key", "value"), _limit(text), strict=True))


def _in_words(callback: Mapping[str, Any]) -> str:
    tags = ", ".join(f"{tag['name']}={tag['value']}" for tag in callback["tags"])
    said = (tags or "no tags") if callback["answered"] else "nothing, for it failed"
    return f"the callback {callback['class']} answers {said}"


@quotas.command()
@_pass_console
def export(console: Console) -> None:
    """Print every rule as a file for `plan` and `apply`."""
    from broker.commands import quotas_yaml  # a tenth of the start, and only some of these commands need it

    click.echo(quotas_yaml.write(console.ask("GET", f"{QUOTAS}:export")), nl=False)


_FILE = click.argument("file", type=click.Path(path_type=Path))
_PRUNE = click.option("--prune", is_flag=True, help="Entities that are not in FILE lose their limits.")


@quotas.command()
@_FILE
@_PRUNE
@_pass_console
def plan(console: Console, file: Path, prune: bool) -> None:
    """Say what `apply` would change. The exit status is 2 if that is anything."""
    answer = _import(console, file, prune=prune, dry_run=True)
    _print_changes(answer)
    sys.exit(2 if answer["changes"] or answer["shadow_changes"] else 0)


@quotas.command()
@_FILE
@_PRUNE
@_pass_console
def apply(console: Console, file: Path, prune: bool) -> None:
    """Give each entity in FILE exactly the limits that it has there."""
    _print_changes(_import(console, file, prune=prune, dry_run=False))


def _import(console: Console, file: Path, *, prune: bool, dry_run: bool) -> Any:
    from broker.commands import quotas_yaml

    try:
        document = quotas_yaml.read(file)
    except quotas_yaml.NoQuotasError as error:
        raise click.ClickException(str(error)) from error
    query = {"prune": prune, "dry_run": dry_run}
    try:
        answer = console.ask("POST", f"{QUOTAS}:import", query, document)
    except RefusedError as error:
        raise click.ClickException(_nothing_done(file, error)) from error
    if refused := _refusals(answer):
        _print_changes(answer)
        words = "these were changed by somebody else in this moment, and are left:"
        raise click.ClickException("\n".join([words, *refused]))
    return answer


def _nothing_done(file: Path, error: RefusedError) -> str:
    refused = _refusals(error.problem) or [f"  {error.message}"]
    return "\n".join([f"{file} is refused, and nothing was changed:", *refused])


def _refusals(answer: Mapping[str, Any]) -> list[str]:
    return [f"  {in_words(each['entity'])}: {each['message']}" for each in answer.get("refused", ())]


def _print_changes(answer: Mapping[str, Any]) -> None:
    if not answer["changes"] and not answer["shadow_changes"]:
        click.echo("Nothing to change.")
    for change in answer["shadow_changes"]:
        click.echo(f"{in_words(change['entity'])}  {'shadow' if change['shadow'] else 'enforced'}")
    for change in answer["changes"]:
        old, new = (None if change[side] is None else number(change[side]) for side in ("old", "new"))
        words = f"+ {new}" if old is None else f"- {old}" if new is None else f"{old} -> {new}"
        click.echo(f"{in_words(change['entity'])}  {change['key']}  {words}")


def number(value: float) -> str:
    """Without a point where it is whole."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
