"""`weir quotas`: reads and changes the quotas of a running broker, from arguments or from a versioned file.

Imported by the command line. Uses the console's REST API with an administrator's token, and shares only the
names of the quota keys with the broker. Files: broker.common.strict_yaml.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS
from broker.tools.console_client import Console, RefusedError, console_options
from broker.tools.escaping import entity_text, printable

QUOTAS: Final = "/api/v1/client-quotas"
PAGE: Final = 1_000

Entity = Mapping[str, str | None]

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_OF_AN_OP: Final = re.compile(r"/entries/0/ops/([0-9]+)(/.*)?")


@click.group()
@console_options
@click.pass_context
def quotas(context: click.Context, url: str, ca_file: str | None) -> None:
    """Show and change the quotas of a running broker. Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN."""
    context.obj = partial(Console.from_environment, url, ca_file)


def _pass_console(command: Any) -> Any:
    """Pass the console to a command when it runs, so that its help needs no token."""

    @wraps(command)
    def with_console(make: Callable[[], Console], *arguments: Any, **options: Any) -> Any:
        return command(make(), *arguments, **options)

    return click.pass_obj(with_console)


def _entity_options(command: Any) -> Any:
    for decorate in (
        click.option("--user", help="A user."),
        click.option("--user-default", is_flag=True, help="The default for users without a rule."),
        click.option("--client-id", help="A client id."),
        click.option("--client-id-default", is_flag=True, help="The default for client ids without a rule."),
        click.option("--ip", help="An IP address."),
        click.option("--ip-default", is_flag=True, help="The default for addresses without a rule."),
    ):
        command = decorate(command)
    return command


def entity_of(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the entity that the options name. Raises click.UsageError for no entity, or for a name
    together with its default.
    """
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
        raise click.UsageError("no entity: give --user, --client-id, --ip or one of their defaults")
    return entity


@quotas.command("list")
@click.option("--json", "as_json", is_flag=True, help="The REST API's response.")
@_pass_console
def list_quotas(console: Console, as_json: bool) -> None:
    """List every limit and its present usage."""
    page = console.request("GET", QUOTAS, {"limit": PAGE})
    rows: list[dict[str, Any]] = page["items"]
    while page["next"] is not None:
        page = console.request("GET", QUOTAS, {"limit": PAGE, "cursor": page["next"]})
        rows += page["items"]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [("ENTITY", "LIMIT", "VALUE", "USED", "THROTTLED", "SHADOW")]
    for row in rows:
        for key, limit in row["limits"].items():
            used = "-" if limit["used"] is None else f"{limit['used']:.0%}"
            value, throttled = number(limit["value"]), str(limit["throttled"])
            table.append((entity_text(row["entity"]), key, value, used, throttled, _shadow_text(limit)))
    _print_table(table)


def _shadow_text(limit: Mapping[str, Any]) -> str:
    shadow = limit.get("shadow_throttles")
    return "" if shadow is None else f"{shadow['times']} times, {shadow['throttle_ms'] / 1000:.1f} s"


@quotas.command("set")
@_entity_options
@click.option(
    "--shadow/--enforce",
    default=None,
    help="Do not enforce the entity's limits, only count, or enforce them.",
)
@click.argument("limits", nargs=-1, metavar="KEY=VALUE...")
@_pass_console
def set_quotas(console: Console, /, limits: Sequence[str], shadow: bool | None, **options: Any) -> None:
    """Set limits of one entity, as in: weir quotas set --user alice producer_byte_rate=1000000"""
    if not limits and shadow is None:
        raise click.UsageError("no limit: give KEY=VALUE, --shadow or --enforce")
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
        # Kafka ignores the removal of an unknown key; on a command line it is a typing error.
        if key not in known:
            raise click.UsageError(f"unknown limit {printable(key)}; expected one of {', '.join(known)}")
    _alter(console, entity_of(options), [{"key": key, "remove": True} for key in keys])


def _limit(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    number_of = _NUMBER.fullmatch(value)
    if not key or number_of is None:
        raise click.UsageError(f"{printable(text)}: expected KEY=VALUE with a number")
    return key, float(value) if number_of[1] or number_of[2] else int(value)


def _alter(
    console: Console, entity: Entity, ops: Sequence[Mapping[str, Any]], more: Mapping[str, Any] | None = None
) -> None:
    try:
        response = console.request(
            "PATCH", QUOTAS, body={"entries": [{"entity": entity, "ops": ops, **(more or {})}]}
        )
    except RefusedError as error:
        found = _OF_AN_OP.match(error.where)
        named = f"{printable(ops[int(found[1])]['key'])} " if found else ""
        raise click.ClickException(f"{entity_text(entity)}: {named}{error.detail}") from error
    for result in response["results"]:
        for warning in result["warnings"]:
            click.echo(f"Warning: {printable(warning)}", err=True)
    click.echo(f"{entity_text(entity)}: done")


@quotas.command()
@click.option("--user", default="", help="The user; default: none.")
@click.option("--client-id", default="", help="The client id.")
@click.option("--ip", default="", help="An IP address, to show its limit too.")
@click.option(
    "--if",
    "edits",
    multiple=True,
    metavar="ENTITY:LIMITS",
    help="Preview a change: user=alice,client-id:producer_byte_rate=1000,request_percentage= (an absent name "
    "is the default, an omitted value removes, shadow and enforce are given like limits). Repeatable.",
)
@_pass_console
def resolve(console: Console, user: str, client_id: str, ip: str, edits: Sequence[str]) -> None:
    """Show the rule that governs a client, the rules tried before it, its present usage, and a change's
    effect.
    """
    if edits:
        body = {"user": user, "client_id": client_id, "ip": ip, "if": [_edit(text) for text in edits]}
        found = console.request("POST", f"{QUOTAS}:resolve", body=body)
    else:
        found = console.request("GET", f"{QUOTAS}:resolve", {"user": user, "client_id": client_id, "ip": ip})
    for limit in found["limits"]:
        click.echo(f"{limit['key']}: {_state_text(limit)}")
        if "callback" in limit:
            click.echo(f"  -> {_callback_text(limit['callback'])}")
        for probe in limit["probes"]:
            mark = "->" if probe["matched"] else "  "
            value = "-" if probe["value"] is None else number(probe["value"])
            click.echo(f"  {mark} {entity_text(probe['entity'])}: {value}{' (shadow)' * probe['shadow']}")
        if "if" in limit:
            then = limit["if"]
            by = f" by {entity_text(then['matched'])}" if "matched" in then else ""
            click.echo(f"  then: {_state_text(then)}{by}")


def _state_text(state: Mapping[str, Any]) -> str:
    text = "no limit" if state["bound"] is None else number(state["bound"])
    if state["observed"] is not None:
        text += f", {state['observed']:.6g} used"
    if state["wait_ms"]:
        would = "would be throttled" if state["shadow"] else "throttled"
        text += f", {would} for {state['wait_ms'] / 1000:.1f} s at this rate"
    return text


def _edit(text: str) -> dict[str, Any]:
    """Return user=alice,client-id:producer_byte_rate=1000 as the REST API expects it. Raises
    click.UsageError.
    """
    names, colon, limits = text.rpartition(":")
    if not colon:
        raise click.UsageError(f"{text}: expected ENTITY:LIMITS")
    entity: dict[str, str | None] = {}
    for part in names.split(","):
        kind, equals, name = part.partition("=")
        if kind in entity:
            raise click.UsageError(f"{text}: {kind} is given twice")
        entity[kind] = name if equals else None
    parts = limits.split(",")
    marks = [part == "shadow" for part in parts if part in ("shadow", "enforce")]
    ops = [_op(part) for part in parts if part not in ("shadow", "enforce")]
    return {"entity": entity, "ops": ops} | ({"shadow": marks[-1]} if marks else {})


def _op(text: str) -> dict[str, Any]:
    if text.endswith("="):
        return {"key": text[:-1], "remove": True}
    return dict(zip(("key", "value"), _limit(text), strict=True))


def _callback_text(callback: Mapping[str, Any]) -> str:
    tags = ", ".join(f"{tag['name']}={tag['value']}" for tag in callback["tags"])
    result = (tags or "no tags") if callback["answered"] else "nothing: it failed"
    return f"the callback {callback['class']} returns {result}"


@quotas.command()
@_pass_console
def export(console: Console) -> None:
    """Print every rule as a file for `plan` and `apply`."""
    from broker.common import strict_yaml

    click.echo(strict_yaml.write(console.request("GET", f"{QUOTAS}:export")), nl=False)


_FILE = click.argument("file", type=click.Path(path_type=Path))
_PRUNE = click.option("--prune", is_flag=True, help="Remove the limits of entities that are not in FILE.")


@quotas.command()
@_FILE
@_PRUNE
@_pass_console
def plan(console: Console, file: Path, prune: bool) -> None:
    """Show what `apply` would change, and for which connected clients. The exit status is 2 if there are
    changes.
    """
    response = _import(console, file, prune=prune, validate_only=True)
    _print_changes(response)
    print_reach(response.get("reach", ()))
    sys.exit(2 if response["changes"] or response["shadow_changes"] else 0)


@quotas.command()
@_FILE
@_PRUNE
@_pass_console
def apply(console: Console, file: Path, prune: bool) -> None:
    """Give each entity in FILE exactly its limits from FILE."""
    _print_changes(_import(console, file, prune=prune, validate_only=False))


def _import(console: Console, file: Path, *, prune: bool, validate_only: bool) -> Any:
    from broker.common import strict_yaml

    try:
        document = strict_yaml.read_file(file).json()
    except strict_yaml.BadFileError as error:
        raise click.ClickException(str(error)) from error
    if not isinstance(document, dict) or "quotas" not in document:
        raise click.ClickException(f"{file} has no list `quotas`")
    query = {"prune": prune, "validate_only": validate_only}
    try:
        return console.request("POST", f"{QUOTAS}:import", query, document)
    except RefusedError as error:
        raise click.ClickException(_refused_import(file, error)) from error


def _refused_import(file: Path, error: RefusedError) -> str:
    refused = _refusals(error.problem) or [f"  {error.message}"]
    return "\n".join([f"{file} is refused; no quota was changed:", *refused])


def _refusals(response: Mapping[str, Any]) -> list[str]:
    return [f"  {entity_text(each['entity'])}: {each['message']}" for each in response.get("refused", ())]


def _print_changes(response: Mapping[str, Any]) -> None:
    if not response["changes"] and not response["shadow_changes"]:
        click.echo("Nothing to change.")
    for change in response["shadow_changes"]:
        click.echo(f"{entity_text(change['entity'])}  {'shadow' if change['shadow'] else 'enforced'}")
    for change in response["changes"]:
        old, new = (None if change[side] is None else number(change[side]) for side in ("old", "new"))
        text = f"+ {new}" if old is None else f"- {old}" if new is None else f"{old} -> {new}"
        click.echo(f"{entity_text(change['entity'])}  {change['key']}  {text}")


def print_reach(reaches: Sequence[Mapping[str, Any]]) -> None:
    """Print from which rule and limit to which the connected clients would come."""
    for reach in reaches:
        for move in reach["moves"]:
            count = move["clients"]
            clients = f"{count} connected {'client' if count == 1 else 'clients'}"
            click.echo(f"{reach['key']}: {clients} from {_rule(move['from'])} to {_rule(move['to'])}")
        if reach["first_wait_ms"]:
            click.echo(f"{reach['key']}: throttled for up to {reach['first_wait_ms'] / 1000:.0f} s at first")
        for rule in reach["emptied"]:
            click.echo(f"{reach['key']}: {_rule(rule)} is left without connected clients")
        if reach["unlisted"]:
            every = reach["counted"] + reach["unlisted"]
            click.echo(f"{reach['key']}: counts the first {reach['counted']} of {every} connected clients")


def _rule(rule: Mapping[str, Any]) -> str:
    if rule["entity"] is None:
        return "no limit"
    return f"{entity_text(rule['entity'])} ({number(rule['bound'])})"


def number(value: float) -> str:
    """Return a whole number without a decimal point."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
