"""`weir quotas`: the quotas of a running broker from a shell, and from a file that is kept with other
configuration.

Imported by the command line. A client of the console's REST API, with an administrator's token; knows
nothing else of the broker. The file is YAML:

    quotas:
      - entity: {user: alice, client-id: null}      # null is the default of its type
        limits: {producer_byte_rate: 1000000}
        shadow: true                                # measured and not enforced
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

DEFAULT_CONSOLE: Final = "http://127.0.0.1:8080"
TOKEN_VARIABLES: Final = ("WEIR_TOKEN", "WEIR_ADMIN_TOKEN")
QUOTAS: Final = "/api/v1/client-quotas"
PATIENCE_S: Final = 30
PAGE: Final = 1_000

Entity = Mapping[str, str | None]


class _Refused(click.ClickException):
    """What the broker said no to; 412 and the like keep their words."""


@dataclass(frozen=True, slots=True)
class Console:
    url: str
    token: str

    def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON answer. Raises click.ClickException with the problem's own words."""
        # Here and not above: the broker's own start is not to wait for them.
        import urllib.error
        import urllib.parse
        import urllib.request

        given = {name: _written(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url.rstrip('/')}{path}" + (f"?{urllib.parse.urlencode(given)}" if given else "")
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            url,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise _Refused(_problem(error.read(), f"{error.code} {error.reason}")) from error
        except (OSError, ValueError) as error:
            raise click.ClickException(f"no console answers at {self.url}: {error}") from error


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(body: bytes, status: str) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        return status
    lines = [document.get("detail") or document.get("title") or status]
    if where := document.get("where"):
        lines[0] += f" ({where})"
    refused = [*document.get("refused", ()), *document.get("results", ())]
    lines += [
        f"  {in_words(each['entity'])}: {each['message']}" for each in refused if each["error"] != "NONE"
    ]
    return "\n".join(lines)


def in_words(entity: Entity) -> str:
    """user alice, default client-id"""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items())


@click.group()
@click.option(
    "--console", "url", envvar="WEIR_CONSOLE", default=DEFAULT_CONSOLE, show_default=True, help="Its URL."
)
@click.pass_context
def quotas(context: click.Context, url: str) -> None:
    """See and change the quotas of a running broker. The token is read from WEIR_TOKEN or
    WEIR_ADMIN_TOKEN.
    """
    token = next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), None)
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url} is not the URL of a console")
    if token is None:
        raise click.UsageError(f"a token is needed in {' or '.join(TOKEN_VARIABLES)}")
    context.obj = Console(url, token)


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
@click.pass_obj
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
@click.pass_obj
def set_quotas(console: Console, /, limits: Sequence[str], shadow: bool | None, **options: Any) -> None:
    """Set limits of one entity, as in: weir quotas set --user alice producer_byte_rate=1000000"""
    if not limits and shadow is None:
        raise click.UsageError("what limit? KEY=VALUE, --shadow or --enforce")
    ops = [dict(zip(("key", "value"), _limit(text), strict=True)) for text in limits]
    _alter(console, entity_of(options), ops, {} if shadow is None else {"shadow": shadow})


@quotas.command("remove")
@_entity_options
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.pass_obj
def remove_quotas(console: Console, /, keys: Sequence[str], **options: Any) -> None:
    """Remove limits of one entity."""
    _alter(console, entity_of(options), [{"key": key, "remove": True} for key in keys])


def _limit(text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return key, int(value) if value.isdecimal() else float(value)
    except ValueError:
        raise click.UsageError(f"{text}: not KEY=VALUE with a number") from None


def _alter(
    console: Console, entity: Entity, ops: Sequence[Mapping[str, Any]], more: Mapping[str, Any] | None = None
) -> None:
    console.ask("PATCH", QUOTAS, body={"entries": [{"entity": entity, "ops": ops, **(more or {})}]})
    click.echo(f"{in_words(entity)}: done")


@quotas.command()
@click.option("--user", default="", help="The user; nobody in particular if left out.")
@click.option("--client-id", default="", help="The client id.")
@click.pass_obj
def resolve(console: Console, user: str, client_id: str) -> None:
    """Which rule governs a client, and which were looked for before it."""
    found = console.ask("GET", f"{QUOTAS}:resolve", {"user": user, "client-id": client_id})
    for limit in found["limits"]:
        bound = "no limit" if limit["bound"] is None else number(limit["bound"])
        click.echo(f"{limit['key']}: {bound}")
        if "callback" in limit:
            click.echo(f"  -> {_in_words(limit['callback'])}")
        for probe in limit["probes"]:
            mark = "->" if probe["matched"] else "  "
            value = "-" if probe["value"] is None else number(probe["value"])
            click.echo(f"  {mark} {in_words(probe['entity'])}: {value}")


def _in_words(callback: Mapping[str, Any]) -> str:
    tags = ", ".join(f"{tag['name']}={tag['value']}" for tag in callback["tags"])
    said = (tags or "no tags") if callback["answered"] else "nothing, for it failed"
    return f"the callback {callback['class']} answers {said}"


@quotas.command()
@click.pass_obj
def export(console: Console) -> None:
    """Print every rule as a file for `plan` and `apply`."""
    import yaml  # a tenth of the start, and only some of these commands need it

    click.echo(
        yaml.safe_dump(console.ask("GET", f"{QUOTAS}:export"), sort_keys=False, allow_unicode=True), nl=False
    )


_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_PRUNE = click.option("--prune", is_flag=True, help="Entities that are not in FILE lose their limits.")


@quotas.command()
@_FILE
@_PRUNE
@click.pass_obj
def plan(console: Console, file: Path, prune: bool) -> None:
    """Say what `apply` would change. The exit status is 2 if that is anything."""
    answer = _import(console, file, prune=prune, dry_run=True)
    _print_changes(answer)
    sys.exit(2 if answer["changes"] or answer["shadow_changes"] else 0)


@quotas.command()
@_FILE
@_PRUNE
@click.pass_obj
def apply(console: Console, file: Path, prune: bool) -> None:
    """Give each entity in FILE exactly the limits that it has there."""
    _print_changes(_import(console, file, prune=prune, dry_run=False))


def _import(console: Console, file: Path, *, prune: bool, dry_run: bool) -> Any:
    import yaml

    try:
        document = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise click.ClickException(f"{file} has no list of quotas")
    answer = console.ask("POST", f"{QUOTAS}:import", {"prune": prune, "dry_run": dry_run}, document)
    if answer["refused"]:
        words = [f"  {in_words(each['entity'])}: {each['message']}" for each in answer["refused"]]
        raise _Refused("\n".join(["some entities were refused:", *words]))
    return answer


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
