"""All client quotas as a file: /client-quotas:export and :import.

Export returns the format that import accepts, so the file can be kept under version control. Import with
dry_run reports its changes without applying them.
"""

from collections.abc import Sequence
from typing import Any, Final

from broker.control.commands import AlterClientQuotas, EntityPairs, QuotaOutcome
from broker.control.views import QuotaRow
from webui.quotas.entities import ALL_KEYS, json_of, order_of
from webui.quotas.files import Difference, Differences, alterations, differences, document, wanted_by
from webui.rest.answers import ENTITY, MAYBE
from webui.rest.problem import PROBLEM_FIELDS, Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Flag, Listing, Number, Record, Text
from webui.tables.slices import gathered, in_order, keyed, outcome

MAX_ENTITIES: Final = 10_000
BEYOND: Final = 2.0**63

_LIMITS: Final = Record(
    dict.fromkeys(ALL_KEYS, Number(above=0, below=BEYOND)), optional=frozenset(ALL_KEYS), least=1
)
_ENTRY: Final = Record(
    {"entity": ENTITY, "limits": _LIMITS, "shadow": Flag()}, optional=frozenset({"shadow"})
)
ENTRIES: Final = Listing(_ENTRY, most=MAX_ENTITIES)
FILE: Final = Record({"quotas": ENTRIES})
_CHANGES: Final = Listing(
    Record({"entity": ENTITY, "key": Text(), "old": MAYBE, "new": MAYBE}), most=10 * MAX_ENTITIES
)
_SHADOWS: Final = Listing(Record({"entity": ENTITY, "shadow": Flag()}), most=MAX_ENTITIES)
_REFUSED: Final = Listing(
    Record({"entity": ENTITY, "error": Text(), "message": Text(longest=4096, nullable=True)}),
    most=MAX_ENTITIES,
)
_IMPORTED: Final = {"changes": _CHANGES, "shadow_changes": _SHADOWS, "refused": _REFUSED}
IMPORTED: Final = Record(_IMPORTED)
REFUSED_IMPORT: Final = Record(
    {**PROBLEM_FIELDS, **_IMPORTED}, optional=frozenset({"code", "where", *_IMPORTED})
)


async def export_quotas(call: Call) -> Reply:
    rows = await in_order(call.console.backend.views.each_quota(), lambda row: order_of(row.entity))
    return Reply({"quotas": await gathered(document(rows))})


async def import_quotas(call: Call) -> Reply:
    try:
        wanted = await outcome(wanted_by(call.body["quotas"]))
    except ValueError as error:
        raise Problem(400, str(error), where="/quotas") from error
    rows = await keyed(call.console.backend.views.each_quota(), _entity)
    call.left.extend([wanted, rows])
    changes = await differences(wanted, rows, prune=call.query["prune"])
    if not changes:
        return Reply({"changes": [], "shadow_changes": [], "refused": []})
    entries = await alterations(changes, rows)
    call.left.extend([changes.limits, list(entries)])
    control = call.console.backend.control
    outcomes = await control.apply(AlterClientQuotas(entries, validate_only=True), call.actor)
    call.left.append(outcomes)
    refused = await _refused(outcomes)
    if refused:
        # Apply all entries or none.
        raise _problem(outcomes, await _answer(changes, refused))
    if not call.query["dry_run"]:
        outcomes = await control.apply(AlterClientQuotas(entries), call.actor)
        call.left.append(outcomes)
        call.console.live.refresh()
        refused = await _refused(outcomes)
    answer = await _answer(changes, refused)
    if len(refused) == len(outcomes):
        raise _problem(outcomes, answer)
    return Reply(answer, status=207 if refused else 200)


def _entity(row: QuotaRow) -> EntityPairs:
    return row.entity


async def _refused(outcomes: Sequence[QuotaOutcome]) -> list[dict[str, Any]]:
    return await gathered(
        None
        if each.ok
        else {"entity": json_of(each.entity), "error": each.error.name, "message": each.message}
        for each in outcomes
    )


async def _answer(changes: Differences, refused: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "changes": await gathered(map(_change_json, changes.limits)),
        "shadow_changes": await gathered(
            {"entity": json_of(entity), "shadow": shadow} for entity, shadow in changes.shadows.items()
        ),
        "refused": refused,
    }


def _problem(outcomes: Sequence[QuotaOutcome], answer: dict[str, Any]) -> Problem:
    first = next(outcome for outcome in outcomes if not outcome.ok)
    return Problem.of(first.error, first.message, **answer)


def _change_json(change: Difference) -> dict[str, Any]:
    return {"entity": json_of(change.entity), "key": change.key, "old": change.old, "new": change.new}


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/client-quotas:export",
        "exportClientQuotas",
        "All rules with their limits, in the format of the import.",
        export_quotas,
        {200: Answer("All quotas", FILE)},
    ),
    Route(
        "POST",
        "/api/v1/client-quotas:import",
        "importClientQuotas",
        "Sets exactly the listed limits for each listed entity, enforced unless `shadow` is set.",
        import_quotas,
        {
            200: Answer("The changes, made or previewed", IMPORTED),
            207: Answer("The rejected entities changed concurrently", IMPORTED),
            400: Answer("An entity was rejected, so none was changed", REFUSED_IMPORT),
            403: Answer("Insufficient role", REFUSED_IMPORT),
            412: Answer("An entity changed in the meantime, so none was changed", REFUSED_IMPORT),
        },
        query=(
            Query("dry_run", Flag(), "Only preview the changes; change nothing.", default=False),
            Query("prune", Flag(), "Remove the limits of unlisted entities.", default=False),
        ),
        body=FILE,
        has_list=True,
    ),
)
