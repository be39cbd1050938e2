"""`weir quotas`: reads and changes the quotas of a running broker, from arguments or from a versioned file.

Imported by the command line. Uses the console's REST API with an administrator's token, and shares only the
names of the quota keys with the broker. Files: broker.common.strict_yaml.
"""

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from broker.common.quantities import (
    LIMITS,
    Quantity,
    QuantityError,
    group,
    read_limit,
    write_bytes,
)
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS
from broker.tools.console_client import Console, RefusedError, console_options, pass_console
from broker.tools.escaping import entity_text, printable
from broker.tools.output import Column, Output, count_column, output_option, print_json, print_rows
from broker.tools.quota_times import temporary_text, times_of, times_text
from broker.tools.top.tables import rate

QUOTAS: Final = "/api/v1/client-quotas"

Entity = Mapping[str, str | None]

_OF_AN_OP: Final = re.compile(r"/entries/0/ops/([0-9]+)(/.*)?")


@click.group()
@console_options
@click.pass_context
def quotas(context: click.Context, url: str, ca_file: str | None) -> None:
    """Show and change the quotas of a running broker. Reads the token from WEIR_TOKEN or WEIR_ADMIN_TOKEN."""
    context.obj = partial(Console.from_environment, url, ca_file)


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
@click.option("--search", default="", metavar="TEXT", help="Only rules with TEXT in a name.")
@click.option("--nearest", is_flag=True, help="The rules that are nearest to a limit first.")
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@output_option
@pass_console
def list_quotas(console: Console, search: str, nearest: bool, as_json: bool, output: Output) -> None:
    """List every limit and its present usage. JSON has the rules, CSV and the table a line for each limit."""
    order = {"sort": "used", "order": "desc"} if nearest else {}
    rules = list(console.each(QUOTAS, {"search": search, **order}))
    if as_json or output is Output.JSON:
        print_json(rules)
        return
    rows = [row for rule in rules for row in _limit_rows(rule)]
    print_rows(rows, _COLUMNS, output, empty="No rule has this name." if search else "There is no quota.")


def _limit_rows(rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return a row for each limit, also for those that begin later."""
    temporary, entity = rule.get("temporary", {}), entity_text(rule["entity"])
    for key in dict.fromkeys((*rule["limits"], *temporary)):
        limit = rule["limits"].get(key, {"value": None, "used": None, "throttled": 0})
        yield limit | {"entity": entity, "key": key, "temporary": temporary.get(key)}


def _share(used: float | None) -> str:
    return "-" if used is None else f"{used:.0%}"


def _shadow_text(limit: Mapping[str, Any]) -> str:
    shadow = limit.get("shadow_throttles")
    return "" if shadow is None else f"{shadow['times']} times, {shadow['throttle_ms'] / 1000:.1f} s"


def _value_text(row: Mapping[str, Any], name: str) -> str:
    return "-" if row[name] is None else limit_text(row["key"], row[name])


def _temporary_text(row: Mapping[str, Any]) -> str:
    limit = row["temporary"]
    if limit is None:
        return ""
    value, permanent = (_value_text({"key": row["key"], **limit}, name) for name in ("value", "permanent"))
    return temporary_text(limit, value, "no limit" if limit["permanent"] is None else permanent)


_COLUMNS: Final = (
    Column("ENTITY", lambda row: row["entity"]),
    Column("LIMIT", lambda row: row["key"]),
    Column("VALUE", lambda row: row["value"], lambda row: _value_text(row, "value"), is_number=True),
    Column("USED", lambda row: row["used"], lambda row: _share(row["used"]), is_number=True),
    count_column("THROTTLED", "throttled"),
    Column("SHADOW", _shadow_text),
    Column("TEMPORARY", _temporary_text),
)


@quotas.command("set")
@_entity_options
@click.option(
    "--shadow/--enforce",
    default=None,
    help="Do not enforce the entity's limits, only count, or enforce them.",
)
@click.option("--from", "begin", metavar="TIME", help="When temporary limits begin. Default: now.")
@click.option(
    "--until",
    "end",
    metavar="TIME",
    help="Set temporary limits, until TIME: 18:00, 2h, 2026-12-01T18:00, in this machine's zone, or with an "
    "offset such as Z. The permanent limits stay, and return by themselves.",
)
@click.option(
    "--weekly",
    multiple=True,
    metavar="WINDOW",
    help='Set temporary limits in weekly windows: "Mon-Fri 09:00-17:00 Europe/Berlin". Default zone: UTC. '
    "Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show for which connected clients the limits change.")
@click.argument("limits", nargs=-1, metavar="KEY=VALUE...")
@pass_console
def set_quotas(
    console: Console,
    /,
    limits: Sequence[str],
    shadow: bool | None,
    begin: str | None,
    end: str | None,
    weekly: Sequence[str],
    dry_run: bool,
    **options: Any,
) -> None:
    """Set limits of one entity, as in: weir quotas set --user alice producer_byte_rate=10MB

    The keys are producer_byte_rate, consumer_byte_rate, request_percentage and controller_mutation_rate of
    users and client ids, and connection_creation_rate of addresses.
    """
    if not limits and shadow is None:
        raise click.UsageError("no limit: give KEY=VALUE, --shadow or --enforce")
    times = times_of(begin, end, weekly, time.time_ns() // 1_000_000)
    if times and not limits:
        raise click.UsageError("no limit for these times: give KEY=VALUE")
    ops = [dict(zip(("key", "value"), _limit(text), strict=True)) | times for text in limits]
    more = {} if shadow is None else {"shadow": shadow}
    _alter(console, entity_of(options), ops, more, is_dry_run=dry_run)


@quotas.command("remove")
@_entity_options
@click.option("--temporary", is_flag=True, help="End temporary limits, and leave the permanent ones alone.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@pass_console
def remove_quotas(console: Console, /, keys: Sequence[str], temporary: bool, **options: Any) -> None:
    """Remove limits of one entity. Temporary limits stay, without --temporary."""
    entity = entity_of(options)
    for key in keys:
        _require_known(
            key
        )  # Kafka ignores the removal of an unknown key; on a command line it is a typing error
    there = _rule_of(console, entity)
    known_temporary = there.get("temporary", {})
    only = {key for key, limit in known_temporary.items() if limit["permanent"] is None}
    permanent = (there["limits"].keys() | known_temporary.keys()) - only if there else ()
    for key in keys:
        if key not in (known_temporary if temporary else permanent):
            named = f"{'temporary ' * temporary}{key}"
            hint = " (--temporary removes the temporary one)" if key in only and not temporary else ""
            raise click.ClickException(f"{entity_text(entity)} has no {named}; nothing was removed{hint}")
    _alter(
        console, entity, [{"key": key, "remove_temporary" if temporary else "remove": True} for key in keys]
    )


def _rule_of(console: Console, entity: Entity) -> Mapping[str, Any]:
    """Return the rule of exactly this entity; {} without one."""
    query: dict[str, Any] = {"strict": True}
    for kind, name in entity.items():
        parameter = kind.replace("-", "_")
        query |= {f"{parameter}_match": "default"} if name is None else {parameter: name}
    rules = list(console.each(QUOTAS, query))
    return rules[0] if rules else {}


def _require_known(key: str) -> None:
    """Raise click.UsageError if `key` is not that of a limit."""
    known = (*CLIENT_KEYS, *IP_KEYS)
    if key not in known:
        raise click.UsageError(f"unknown limit {printable(key)}; expected one of {', '.join(known)}")


def _limit(text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"{printable(text)}: expected KEY=VALUE")
    _require_known(key)
    try:
        return key, read_limit(key, value)
    except QuantityError as error:
        raise click.UsageError(f"{printable(text)}: {error}") from error


def _alter(
    console: Console,
    entity: Entity,
    ops: Sequence[Mapping[str, Any]],
    more: Mapping[str, Any] | None = None,
    *,
    is_dry_run: bool = False,
) -> None:
    body = {"entries": [{"entity": entity, "ops": ops, **(more or {})}]}
    try:
        response = console.request("PATCH", QUOTAS, {"validate_only": is_dry_run}, body)
    except RefusedError as error:
        found = _OF_AN_OP.match(error.where)
        named = f"{printable(ops[int(found[1])]['key'])} " if found else ""
        raise click.ClickException(f"{entity_text(entity)}: {named}{error.detail}") from error
    for result in response["results"]:
        for warning in result["warnings"]:
            click.echo(f"Warning: {printable(warning)}", err=True)
    if is_dry_run:
        reaches = response["results"][0].get("reach", ())
        print_reach(reaches)
        if not any(reach["moves"] for reach in reaches):
            click.echo("No connected client changes its rule or its limit.")
        return
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
@pass_console
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
        key = limit["key"]
        click.echo(f"{key}: {_state_text(key, limit)}")
        if "callback" in limit:
            click.echo(f"  -> {_callback_text(limit['callback'])}")
        for probe in limit["probes"]:
            mark = "->" if probe["matched"] else "  "
            value = "-" if probe["value"] is None else limit_text(key, probe["value"])
            click.echo(f"  {mark} {entity_text(probe['entity'])}: {value}{' (shadow)' * probe['shadow']}")
        if "if" in limit:
            then = limit["if"]
            by = f" by {entity_text(then['matched'])}" if "matched" in then else ""
            click.echo(f"  then: {_state_text(key, then)}{by}")


def _state_text(key: str, state: Mapping[str, Any]) -> str:
    text = "no limit" if state["bound"] is None else limit_text(key, state["bound"])
    if state["observed"] is not None:
        text += f", {rate(key, state['observed'], state['bound'])} used"
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
@pass_console
def export(console: Console) -> None:
    """Print every rule as a file for `plan` and `apply`."""
    from broker.common import strict_yaml

    click.echo(strict_yaml.write(console.request("GET", f"{QUOTAS}:export")), nl=False)


_FILE = click.argument("file", type=click.Path(path_type=Path))
_PRUNE = click.option("--prune", is_flag=True, help="Remove the limits of entities that are not in FILE.")


@quotas.command()
@_FILE
@_PRUNE
@pass_console
def plan(console: Console, file: Path, prune: bool) -> None:
    """Show what `apply` would change, and for which connected clients. The exit status is 2 if there are
    changes.
    """
    response = _import(console, file, prune=prune, validate_only=True)
    _print_changes(response)
    print_reach(response.get("reach", ()))
    sys.exit(2 if _has_changes(response) else 0)


@quotas.command()
@_FILE
@_PRUNE
@pass_console
def apply(console: Console, file: Path, prune: bool) -> None:
    """Give each entity in FILE exactly its limits from FILE."""
    _print_changes(_import(console, file, prune=prune, validate_only=False))


def _import(console: Console, file: Path, *, prune: bool, validate_only: bool) -> Any:
    from broker.common import strict_yaml

    try:
        with file.open("rb") as opened:
            content = opened.read(strict_yaml.MAX_BYTES + 1)  # the console refuses more
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
    query = {"prune": prune, "validate_only": validate_only}
    try:
        return console.request("POST", f"{QUOTAS}:import", query, content)
    except RefusedError as error:
        refused = _refusals(error.problem) or [f"  {error.message}"]
        lines = "\n".join([f"{file} is refused; no quota was changed:", *refused])
        raise click.ClickException(lines) from error


def _refusals(response: Mapping[str, Any]) -> list[str]:
    """Return a line for each refused entry, with its line in the file and its entity, if it has them."""
    return [
        "  "
        + (f"line {each['line']}: " if each["line"] else "")
        + (f"{entity_text(each['entity'])}: " if "entity" in each else "")
        + str(each["message"] or each["error"])
        for each in response.get("refused", ())
    ]


def _has_changes(response: Mapping[str, Any]) -> bool:
    return any(response[kind] for kind in ("changes", "shadow_changes", "temporary_changes"))


def _print_changes(response: Mapping[str, Any]) -> None:
    for warning in response["warnings"]:
        click.echo(f"Warning: {printable(warning)}", err=True)
    if not _has_changes(response):
        click.echo("Nothing to change.")
    for change in response["shadow_changes"]:
        click.echo(f"{entity_text(change['entity'])}  {'shadow' if change['shadow'] else 'enforced'}")
    for change in response["changes"]:
        old, new = (
            None if change[side] is None else limit_text(change["key"], change[side])
            for side in ("old", "new")
        )
        _print_change(change, old, new)
    for change in response["temporary_changes"]:
        old, new = (
            None if change[side] is None else _in_file_text(change["key"], change[side])
            for side in ("old", "new")
        )
        _print_change(change, old, new)


def _print_change(change: Mapping[str, Any], old: str | None, new: str | None) -> None:
    text = f"+ {new}" if old is None else f"- {old}" if new is None else f"{old} -> {new}"
    click.echo(f"{entity_text(change['entity'])}  {change['key']}  {text}")


def _in_file_text(key: str, limit: Mapping[str, Any]) -> str:
    return f"{limit_text(key, limit['value'])} {times_text(limit)}"


def print_reach(reaches: Sequence[Mapping[str, Any]]) -> None:
    """Print from which rule and limit to which the connected clients would come."""
    for reach in reaches:
        for move in reach["moves"]:
            count = move["clients"]
            clients = f"{count} connected {'client' if count == 1 else 'clients'}"
            old, new = (_rule(reach["key"], move[side]) for side in ("from", "to"))
            click.echo(f"{reach['key']}: {clients} from {old} to {new}")
        if reach["first_wait_ms"]:
            click.echo(f"{reach['key']}: throttled for up to {reach['first_wait_ms'] / 1000:.0f} s at first")
        for rule in reach["emptied"]:
            click.echo(f"{reach['key']}: {_rule(reach['key'], rule)} is left without connected clients")
        if reach["unlisted"]:
            every = reach["counted"] + reach["unlisted"]
            click.echo(f"{reach['key']}: counts the first {reach['counted']} of {every} connected clients")


def _rule(key: str, rule: Mapping[str, Any]) -> str:
    if rule["entity"] is None:
        return "no limit"
    return f"{entity_text(rule['entity'])} ({limit_text(key, rule['bound'])})"


def limit_text(key: str, value: float) -> str:
    """Return a limit as it can be typed: 1 MB/s, 12.5 %, 1 000/s."""
    quantity = LIMITS.get(key)
    whole = int(value) if float(value).is_integer() else None
    if quantity is Quantity.BYTE_RATE and whole is not None:
        return f"{write_bytes(whole)}/s"
    number = str(value) if whole is None else group(whole)
    return f"{number} %" if quantity is Quantity.PERCENT else f"{number}/s"
