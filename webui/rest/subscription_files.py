"""All client metrics subscriptions as a file: /client-metrics:export and :import.

Export returns the format that import accepts. An import gives each listed subscription exactly the listed
settings, where omitted ones have their defaults; subscriptions that the file omits stay unchanged unless
`prune` is set. It applies all of its changes or none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import (
    ConfigAlteration,
    ConfigResource,
    IncrementalAlterConfigs,
    ResourceOutcome,
    ResourceType,
    Role,
)
from broker.controller.rows.fields import LEFT_OUT, Word
from broker.views.client_telemetry import SubscriptionRow
from webui.problem import Problem, problem_schema
from webui.rest.client_metrics import SETTINGS, configs_of, ops_for
from webui.rest.files import (
    FORMAT,
    PREVIEWED,
    YAML,
    by_line,
    file_reply,
    refused_import,
    refused_json,
    version_of,
)
from webui.rest.replies import expected_version, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, NAME, Flag, Invalid, Listing, Maybe, Number, Record, Schema, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import collect, collect_by_key, consumed, run_in_slices

DEFAULT_INTERVAL_MS: Final = 300_000
MAX_SUBSCRIPTIONS: Final = 1_000

Settings = Mapping[str, Any]
"""metrics and match as tuples, interval.ms as an int."""


class SubscriptionFileEntry(msgspec.Struct, frozen=True):
    """A file's entry for one subscription; `configs` are the settings that it names, as text."""

    settings: Settings
    configs: Mapping[str, str]
    line: int


class Difference(msgspec.Struct, frozen=True):
    """One changed setting; `old` is None for a new subscription, `new` is None for a removed one."""

    name: str
    key: str
    old: Any
    new: Any


class RefusedSubscription(msgspec.Struct, frozen=True):
    """`line` is None for a subscription that the file does not list, `name` for an entry that has none that
    is valid.
    """

    name: Annotated[str | None, LEFT_OUT]
    error: Word
    message: Annotated[str, msgspec.Meta(max_length=4_096)] | None
    line: Annotated[int, msgspec.Meta(ge=1)] | None


def entry_of(row: SubscriptionRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "metrics": list(row.metrics),
        "interval.ms": row.interval_ms,
        "match": list(row.match),
    }


def parse_entries(
    listed: Sequence[Mapping[str, Any]], lines: Sequence[int]
) -> Steps[tuple[dict[str, SubscriptionFileEntry], list[RefusedSubscription]]]:
    """Parse a file's entries by name, in their order; and those that are refused."""
    wanted: dict[str, SubscriptionFileEntry] = {}
    refused = []
    for entry, line in zip(listed, lines, strict=True):
        name = entry["name"]
        yield
        reason = f"{name} is listed twice" if name in wanted else ""
        try:
            configs = configs_of(entry)
        except Invalid as error:
            reason = f"{error.where}: {error.message}"
        if reason:
            refused.append(RefusedSubscription(name, ErrorCode.INVALID_REQUEST.name, reason, line))
            continue
        settings = {
            "metrics": _items(entry["metrics"]),
            "interval.ms": int(entry.get("interval.ms", DEFAULT_INTERVAL_MS)),
            "match": _items(entry.get("match", ())),
        }
        wanted[name] = SubscriptionFileEntry(settings, configs, line)
    return wanted, refused


def _items(listed: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.strip() for item in listed))


def differences(
    wanted: Mapping[str, SubscriptionFileEntry], rows: Mapping[str, SubscriptionRow], *, prune: bool
) -> Steps[list[Difference]]:
    """Compare current and desired settings, by name. With `prune`, unlisted subscriptions are removed."""
    missing = (name for name in rows if name not in wanted) if prune else ()
    found: list[Difference] = []
    for name in sorted(chain(wanted, missing)):
        row, new = rows.get(name), wanted.get(name)
        old: Settings = {} if row is None else _settings_of(row)
        wished: Settings = {} if new is None else new.settings
        found += [
            Difference(name, key, old.get(key), wished.get(key))
            for key in SETTINGS
            if old.get(key) != wished.get(key)
        ]
        yield
    return found


def _settings_of(row: SubscriptionRow) -> Settings:
    return {"metrics": row.metrics, "interval.ms": row.interval_ms, "match": row.match}


def _alterations(
    changes: Iterable[Difference],
    wanted: Mapping[str, SubscriptionFileEntry],
    rows: Mapping[str, SubscriptionRow],
) -> Iterator[ConfigAlteration]:
    """Yield one edit for each subscription, conditional on the version seen."""
    for name in dict.fromkeys(change.name for change in changes):
        row, entry = rows.get(name), wanted.get(name)
        ops = ops_for({} if entry is None else entry.configs)
        version = 0 if row is None else row.version
        yield ConfigAlteration(ConfigResource(ResourceType.CLIENT_METRICS, name), ops, version)


_NAME: Final = Text(max_length=1_024, min_length=1)
_ENTRY: Final = Record({"name": _NAME, **SETTINGS}, optional=frozenset({"interval.ms", "match"}))
FILE: Final = Record({"subscriptions": Listing(_ENTRY, max_items=MAX_SUBSCRIPTIONS)})
_LIST: Final = Maybe(Listing(NAME))


def _change_schema(key: str, value: Schema) -> Record:
    return Record({"name": _NAME, "key": Text(choices=(key,)), "old": value, "new": value})


class _Changes(msgspec.Struct, frozen=True):
    """Changes of all settings: of a list or of a number, by key."""

    options: Mapping[str, Record]

    def check(self, value: object, where: str = "") -> Any:
        option = self.options.get(str(value.get("key"))) if isinstance(value, dict) else None
        if option is None:
            raise Invalid(where, f"must have a key of {', '.join(self.options)}")
        return option.check(value, where)

    def describe(self) -> dict[str, Any]:
        return {"oneOf": [option.describe() for option in self.options.values()]}


_CHANGE: Final = _Changes(
    {
        "metrics": _change_schema("metrics", _LIST),
        "interval.ms": _change_schema("interval.ms", Number(integer=True, nullable=True)),
        "match": _change_schema("match", _LIST),
    }
)
_IMPORTED: Final[dict[str, Schema]] = {
    "changes": Listing(_CHANGE),
    "refused": Listing(schema_of(RefusedSubscription)),
}
IMPORTED: Final = Record({**_IMPORTED, "version": COUNT})
REFUSED_IMPORT: Final = problem_schema(**_IMPORTED)


async def export_subscriptions(call: Call) -> Reply:
    rows = await collect(call.views.client_telemetry.subscriptions())
    entries = await collect(entry_of(row) for row in consumed(rows))
    return await file_reply("client-metrics", "subscriptions", entries, form=call.query["format"])


async def import_subscriptions(call: Call) -> Reply:
    lines = call.lines["subscriptions"]
    wanted, bad = await run_in_slices(parse_entries(call.body["subscriptions"], lines))
    unread = [*map(refused_json, call.refused), *map(as_json, bad)]
    telemetry = call.views.client_telemetry
    rows = await collect_by_key(telemetry.subscriptions(), _name)
    prune = call.query["prune"] and not unread
    changes = await run_in_slices(differences(wanted, rows, prune=prune))
    version = await version_of(map(_change_json, changes))
    expected = expected_version(call.headers)
    answer: dict[str, Any] = {"changes": list(map(_change_json, changes)), "refused": []}
    if not unread and expected not in (None, version):
        detail = (
            "The subscriptions have changed since the preview; nothing was changed. Preview the file again."
        )
        raise Problem.of(ErrorCode.INVALID_UPDATE_VERSION, detail, **answer)
    validate_only = call.query["validate_only"]
    outcomes: list[ResourceOutcome] = []
    if changes:
        resources = tuple(_alterations(changes, wanted, rows))
        command = IncrementalAlterConfigs(
            resources, validate_only=validate_only or bool(unread), all_or_none=True
        )
        outcomes = await call.apply(command)
    refused = [*unread, *(_refused_json(each, wanted) for each in outcomes if not each.ok)]
    if refused:
        where = call.refused[0].where if call.refused else None
        raise refused_import(await by_line(refused), answer, where)
    if changes and not validate_only:
        call.console.live.refresh()
    return versioned(answer | {"version": version}, version)


def _name(row: SubscriptionRow) -> str:
    return row.name


def _change_json(change: Difference) -> dict[str, Any]:
    old, new = (list(each) if isinstance(each, tuple) else each for each in (change.old, change.new))
    return {"name": change.name, "key": change.key, "old": old, "new": new}


def _refused_json(outcome: ResourceOutcome, wanted: Mapping[str, SubscriptionFileEntry]) -> dict[str, Any]:
    name = outcome.resource.name
    line = wanted[name].line if name in wanted else None
    return as_json(RefusedSubscription(name, outcome.error.name, outcome.message, line))


ROUTES: Final = (
    Route(
        "GET /api/v1/client-metrics:export",
        "exportClientMetrics",
        "All subscriptions with their settings, in the format of the import.",
        export_subscriptions,
        {200: ResponseSpec("All subscriptions", FILE, also=(YAML,))},
        query=(FORMAT,),
    ),
    Route(
        "POST /api/v1/client-metrics:import",
        "importClientMetrics",
        "Sets exactly the listed settings of each listed subscription; all or none.",
        import_subscriptions,
        {
            200: ResponseSpec(
                "The changes, made or previewed; ETag: the version of these changes, for If-Match", IMPORTED
            ),
            400: ResponseSpec("A subscription was rejected, so none was changed", REFUSED_IMPORT),
            403: ResponseSpec("Insufficient role", REFUSED_IMPORT),
            412: ResponseSpec(
                "A subscription changed in the meantime, or the changes are not those of If-Match, "
                "so none was made",
                REFUSED_IMPORT,
            ),
        },
        query=(
            Query("validate_only", Flag(), "Only preview the changes; change nothing.", default=False),
            Query("prune", Flag(), "Remove unlisted subscriptions.", default=False),
        ),
        body=FILE,
        has_list=True,
        is_file=True,
        headers=PREVIEWED,
        role=Role.EDITOR,
    ),
)
