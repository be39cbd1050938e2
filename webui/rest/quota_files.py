"""All client quotas as a file: /client-quotas:export and :import (weir quotas export, plan, apply).

Export returns the format that import accepts, so the file can be kept under version control. Import with
validate_only reports its changes, and the clients that they reach, without applying them. A file lists
entities with all of their limits, so limits and shadow mode that it omits for a listed entity are removed;
entities that it omits stay unchanged unless `prune` is set. An import applies all of its changes or none.

Temporary limits of a listed entity stay unless its entry has `temporary`, so that a regular import does not
end what somebody has raised for an hour. In a file that is applied again and again, those that have ended
count as absent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Annotated, Any, Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.quantities import QuantityError, read_limits
from broker.common.slices import Steps
from broker.common.temporary_limits import TemporaryLimit
from broker.controller.commands import (
    AlterClientQuotas,
    EntityPairs,
    QuotaAlteration,
    QuotaOp,
    QuotaOutcome,
    Role,
    TemporaryOp,
)
from broker.controller.rows.fields import LEFT_OUT, RuleEntity, Word
from broker.controller.rows.quotas import QuotaRow
from broker.views.console import Views
from webui.problem import Problem, problem_schema
from webui.quota_preview import connected_clients, preview
from webui.quotas import (
    ENTITY,
    entity_text,
    json_of,
    limit_in_json,
    order_of,
    pairs_of,
)
from webui.rest.client_quotas import WANTED, check_wanted
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
from webui.rest.reach import REACH, reaches_json
from webui.rest.replies import etag, expected_version
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.temporary_quotas import TEMPORARY, in_file, temporary_of
from webui.schema import COUNT, Flag, Invalid, Listing, Maybe, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import collect, collect_by_key, consumed, run_in_slices, sliced, sort_in_slices


class QuotaFileEntry(msgspec.Struct, frozen=True):
    """A file's entry for one entity. `temporary` None: the temporary limits stay."""

    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    shadow: bool = False
    temporary: Mapping[str, TemporaryLimit] | None = msgspec.field(default_factory=dict)


NOTHING: Final = QuotaFileEntry()

_INVALID: Final = ErrorCode.INVALID_REQUEST.name


class Difference(msgspec.Struct, frozen=True):
    """One changed limit; `old` is None for a new limit, `new` is None for a removed one."""

    entity: RuleEntity
    key: str
    old: float | None
    new: float | None


class TemporaryDifference(msgspec.Struct, frozen=True):
    """One changed temporary limit; None as in `Difference`."""

    entity: EntityPairs
    key: str
    old: TemporaryLimit | None
    new: TemporaryLimit | None


class RefusedQuota(msgspec.Struct, frozen=True):
    """`line` is None for an entity that the file does not list, `entity` for an entry that has none that is
    valid.
    """

    entity: Annotated[RuleEntity | None, LEFT_OUT]
    error: Word
    message: Annotated[str, msgspec.Meta(max_length=4_096)] | None
    line: Annotated[int, msgspec.Meta(ge=1)] | None


class Differences(msgspec.Struct, frozen=True):
    """The changes, by entity in the order of `document`: limits, shadow mode, and temporary limits. Removing
    an entity also removes its shadow mark.
    """

    limits: list[Difference]
    shadows: Mapping[EntityPairs, bool]
    temporary: list[TemporaryDifference]

    def __bool__(self) -> bool:
        return bool(self.limits or self.shadows or self.temporary)


def document(rows: Iterable[QuotaRow]) -> Iterator[dict[str, Any]]:
    """Yield a file's entries lazily, in the order of `rows`. Sort `rows` by `order_of` for a stable order."""
    return (
        {
            "entity": json_of(row.entity),
            "limits": {key: limit_in_json(value) for key, value in row.permanent.items()},
        }
        | ({"temporary": {each.key: in_file(each.limit) for each in row.temporary}} if row.temporary else {})
        | ({"shadow": True} if row.shadow else {})
        for row in rows
    )


class ParsedEntries(msgspec.Struct, frozen=True):
    """A file's entries by entity, in their order, with the index of each. `refused` entries, by index, have
    the reason, with a JSON pointer into the entry.
    """

    wanted: dict[EntityPairs, QuotaFileEntry] = msgspec.field(default_factory=dict)
    indexes: list[int] = msgspec.field(default_factory=list)
    refused: dict[int, str] = msgspec.field(default_factory=dict)


def parse_entries(listed: Sequence[Mapping[str, Any]], now_ms: int) -> Steps[ParsedEntries]:
    parsed = ParsedEntries()
    for index, entry in enumerate(listed):
        entity = pairs_of(entry["entity"])
        yield
        if entity in parsed.wanted:
            parsed.refused[index] = f"{entity_text(entity)} is listed twice"
            continue
        limits = {key: float(value) for key, value in entry["limits"].items()}
        try:
            check_wanted(entry)
            temporary = _temporary(entry.get("temporary"), "/temporary", now_ms)
        except Invalid as problem:
            parsed.refused[index] = str(problem)
            continue
        parsed.wanted[entity] = QuotaFileEntry(limits, entry.get("shadow", False), temporary)
        parsed.indexes.append(index)
    return parsed


def _temporary(given: Mapping[str, Any] | None, where: str, now_ms: int) -> dict[str, TemporaryLimit] | None:
    """Return the temporary limits of an entry, without those that have ended. Raises Invalid."""
    if given is None:
        return None
    found = {}
    for key, each in given.items():
        limit = temporary_of(each, f"{where}/{key}")
        if limit.until_ms is None or limit.until_ms > now_ms:
            found[key] = limit
    return found


async def differences(
    wanted: Mapping[EntityPairs, QuotaFileEntry], rows: Mapping[EntityPairs, QuotaRow], *, prune: bool
) -> Differences:
    """Compare current and desired quotas. With `prune`, unlisted entities are removed."""
    missing = (entity for entity in rows if entity not in wanted) if prune else ()
    entities = await sort_in_slices(chain(wanted, missing), order_of)
    return await run_in_slices(_differences(entities, wanted, rows))


def _differences(
    entities: Sequence[EntityPairs],
    wanted: Mapping[EntityPairs, QuotaFileEntry],
    rows: Mapping[EntityPairs, QuotaRow],
) -> Steps[Differences]:
    limits: list[Difference] = []
    shadows: dict[EntityPairs, bool] = {}
    temporary: list[TemporaryDifference] = []
    for entity in entities:
        old, new = _there(rows.get(entity)), wanted.get(entity, NOTHING)
        limits += [
            Difference(entity, key, old.limits.get(key), new.limits.get(key))
            for key in sorted({*old.limits, *new.limits})
            if old.limits.get(key) != new.limits.get(key)
        ]
        if entity in wanted and old.shadow is not new.shadow:
            shadows[entity] = new.shadow
        if new.temporary is not None:
            before = old.temporary or {}
            temporary += [
                TemporaryDifference(entity, key, before.get(key), new.temporary.get(key))
                for key in sorted({*before, *new.temporary})
                if before.get(key) != new.temporary.get(key)
            ]
        yield
    return Differences(limits, shadows, temporary)


def _there(row: QuotaRow | None) -> QuotaFileEntry:
    if row is None:
        return NOTHING
    return QuotaFileEntry(row.permanent, row.shadow, {each.key: each.limit for each in row.temporary})


async def alterations(
    changes: Differences, rows: Mapping[EntityPairs, QuotaRow]
) -> tuple[QuotaAlteration, ...]:
    """Return one edit for each entity, conditional on the version seen, so that concurrent changes are not
    overwritten.
    """
    ops: dict[EntityPairs, list[QuotaOp]] = {entity: [] for entity in changes.shadows}
    temporary: dict[EntityPairs, list[TemporaryOp]] = {}
    for each in changes.temporary:
        ops.setdefault(each.entity, [])
        temporary.setdefault(each.entity, []).append(TemporaryOp(each.key, each.new))
    async with aclosing(sliced(changes.limits)) as slices:
        async for some in slices:
            for change in some:
                ops.setdefault(change.entity, []).append(QuotaOp(change.key, change.new))
    return tuple(
        await collect(
            QuotaAlteration(
                entity,
                tuple(ops.pop(entity)),
                _version(rows.get(entity)),
                changes.shadows.get(entity),
                tuple(temporary.get(entity, ())),
            )
            for entity in await sort_in_slices(ops, order_of)
        )
    )


def _version(row: QuotaRow | None) -> int:
    return 0 if row is None else row.version


def _typed(entry: Any, where: str) -> Any:
    """Return an entry of a YAML file with numbers in place of texts such as 10 MB. Raises Invalid."""
    try:
        return read_limits(entry)
    except QuantityError as error:
        raise Invalid(f"{where}/{error.place}", str(error)) from error


MAX_ENTITIES: Final = 10_000
_ENTRY: Final = Record({"entity": ENTITY, **WANTED.fields}, optional=WANTED.optional)
ENTRIES: Final = Listing(_ENTRY, max_items=MAX_ENTITIES, typed=_typed)
FILE: Final = Record({"quotas": ENTRIES}, title="QuotaFile")
_CHANGES: Final = Listing(schema_of(Difference), max_items=10 * MAX_ENTITIES)
_SHADOWS: Final = Listing(Record({"entity": ENTITY, "shadow": Flag()}), max_items=MAX_ENTITIES)
_REFUSED: Final = Listing(schema_of(RefusedQuota), max_items=MAX_ENTITIES)
_TEMPORARY: Final = Listing(
    Record({"entity": ENTITY, "key": Text(), "old": Maybe(TEMPORARY), "new": Maybe(TEMPORARY)}),
    max_items=10 * MAX_ENTITIES,
)
_IMPORTED: Final = {
    "changes": _CHANGES,
    "shadow_changes": _SHADOWS,
    "temporary_changes": _TEMPORARY,
    "refused": _REFUSED,
}
IMPORTED: Final = Record(
    {**_IMPORTED, "version": COUNT, "warnings": Listing(Text(max_length=4096)), "reach": Listing(REACH)},
    optional=frozenset({"reach"}),
)
"""`reach` only with validate_only, and without a quota callback, whose decisions are unknown in advance."""

REFUSED_IMPORT: Final = problem_schema(**_IMPORTED)


async def export_quotas(call: Call) -> Reply:
    rows = await sort_in_slices(call.views.quotas.each_quota(), lambda row: order_of(row.entity))
    entries = await collect(document(consumed(rows)))
    return await file_reply("client-quotas", "quotas", entries, form=call.query["format"])


async def import_quotas(call: Call) -> Reply:
    lines, listed = call.lines["quotas"], call.body["quotas"]
    parsed = await run_in_slices(parse_entries(listed, call.console.now_ms()))
    wanted = parsed.wanted
    line_of = {entity: lines[index] for entity, index in zip(wanted, parsed.indexes, strict=True)}
    rows = await collect_by_key(call.views.quotas.each_quota(), _entity)
    call.to_free.extend([wanted, rows])
    unread = list(map(refused_json, call.refused))
    unread += await collect(
        as_json(RefusedQuota(pairs_of(listed[index]["entity"]), _INVALID, reason, lines[index]))
        for index, reason in parsed.refused.items()
    )
    # An entity of which the entry is refused is not one that the file does not list.
    changes = await differences(wanted, rows, prune=call.query["prune"] and not unread)
    version = await version_of(_each_change(changes))
    expected = expected_version(call.headers)
    if not unread and expected not in (None, version):
        detail = "The rules have changed since the preview; nothing was changed. Preview the file again."
        raise Problem.of(ErrorCode.INVALID_UPDATE_VERSION, detail, **await _answer(changes, []))
    tag = {"ETag": etag(version)}
    if not changes and not unread:
        return Reply(await _answer(changes, []) | {"version": version, "warnings": []}, headers=tag)
    entries = await alterations(changes, rows)
    call.to_free.extend([changes.limits, list(entries)])
    validate_only = call.query["validate_only"]
    command = AlterClientQuotas(entries, validate_only=validate_only or bool(unread), all_or_none=True)
    outcomes = await call.apply(command) if entries else []
    call.to_free.append(outcomes)
    refused = await by_line([*unread, *await _refused(outcomes, line_of)])
    answer = await _answer(changes, refused)
    if refused:
        raise refused_import(refused, answer, call.refused[0].where if call.refused else None)
    answer["version"] = version
    answer["warnings"] = await collect(_warnings(outcomes))
    if validate_only:
        answer |= await _reach(call.views, entries)
    else:
        call.console.live.refresh()
    return Reply(answer, headers=tag)


def _each_change(changes: Differences) -> Iterator[Any]:
    yield from map(as_json, changes.limits)
    for entity, is_shadow in changes.shadows.items():
        yield json_of(entity), is_shadow
    yield from map(_temporary_json, changes.temporary)


def _temporary_json(change: TemporaryDifference) -> dict[str, Any]:
    old, new = (None if limit is None else in_file(limit) for limit in (change.old, change.new))
    return {"entity": json_of(change.entity), "key": change.key, "old": old, "new": new}


def _entity(row: QuotaRow) -> EntityPairs:
    return row.entity


async def _refused(
    outcomes: Sequence[QuotaOutcome], line_of: Mapping[EntityPairs, int]
) -> list[dict[str, Any]]:
    return await collect(
        None
        if each.ok
        else as_json(RefusedQuota(each.entity, each.error.name, each.message, line_of.get(each.entity)))
        for each in outcomes
    )


def _warnings(outcomes: Sequence[QuotaOutcome]) -> Iterator[str | None]:
    for each in outcomes:
        yield "; ".join(f"{entity_text(each.entity)}: {one}" for one in each.warnings) or None


async def _answer(changes: Differences, refused: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "changes": await collect(map(as_json, changes.limits)),
        "shadow_changes": await collect(
            {"entity": json_of(entity), "shadow": shadow} for entity, shadow in changes.shadows.items()
        ),
        "temporary_changes": await collect(map(_temporary_json, changes.temporary)),
        "refused": refused,
    }


async def _reach(views: Views, entries: Sequence[QuotaAlteration]) -> dict[str, Any]:
    """Return the connected clients that all entries together reach; empty if a quota callback decides."""
    if views.quotas.callback:
        return {}
    clients = await collect(entry for entry in entries if entry.entity[0][0] != "ip")
    reaches = await preview(views, clients, await connected_clients(views)) if clients else []
    return {"reach": await reaches_json(reaches)}


ROUTES: Final = (
    Route(
        "GET /api/v1/client-quotas:export",
        "exportClientQuotas",
        "All rules with their limits, in the format of the import.",
        export_quotas,
        {200: ResponseSpec("All quotas", FILE, also=(YAML,))},
        query=(FORMAT,),
    ),
    Route(
        "POST /api/v1/client-quotas:import",
        "importClientQuotas",
        "Sets exactly the listed limits for each entity, enforced unless `shadow` is set. All or none.",
        import_quotas,
        {
            200: ResponseSpec(
                "The changes, made or previewed; ETag: the version of these changes, for If-Match", IMPORTED
            ),
            400: ResponseSpec("An entity was rejected, so none was changed", REFUSED_IMPORT),
            403: ResponseSpec("Insufficient role", REFUSED_IMPORT),
            412: ResponseSpec(
                "An entity changed in the meantime, or the changes are not those of If-Match; none was made",
                REFUSED_IMPORT,
            ),
        },
        query=(
            Query("validate_only", Flag(), "Only preview the changes; change nothing.", default=False),
            Query("prune", Flag(), "Remove the limits of unlisted entities.", default=False),
        ),
        body=FILE,
        has_list=True,
        is_file=True,
        headers=PREVIEWED,
        role=Role.EDITOR,
    ),
)
