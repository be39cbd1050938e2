"""The JSON of a preview: the clients that an edit, a removal, an import or an undo reaches."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from webui.quota_preview import LimitingRule, MovedClients, Reach
from webui.quotas import ENTITY, json_of
from webui.schema import COUNT, MAYBE, NAME, Flag, Listing, Maybe, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import collect, free_in_slices

MAX_MOVES: Final = 20
"""Moves of one key; the others have fewer clients."""

_RULE: Final = schema_of(LimitingRule)
_MOVE: Final = Record({"from": _RULE, "to": _RULE, **schema_of(MovedClients).fields})
REACH: Final = Record(
    {
        "key": Text(),
        "counted": COUNT,
        "clients": COUNT,
        "over": COUNT,
        "unmeasured": COUNT,
        "moved": COUNT,
        "moves": Listing(_MOVE, max_items=MAX_MOVES),
        "outranked": Listing(Record({"entity": ENTITY, "clients": COUNT})),
        "emptied": Listing(schema_of(LimitingRule, entity=ENTITY)),
        "first_wait_ms": COUNT,
        "gentler": Maybe(Record({"value": MAYBE, "first_wait_ms": COUNT})),
        "shadow": Flag(),
        "unlisted": COUNT,
        "unheard": Listing(NAME),
    },
    title="Reach",
)
"""Of `counted` clients. `unlisted` connected clients are not counted: those beyond MAX_CLIENTS, and those
that other gateways only count. `unheard` gateways have not reported yet.
"""


async def reaches_json(reaches: Sequence[Reach]) -> list[dict[str, Any]]:
    """Return the JSON of a preview, in slices, and free its moves: a file of rules may have thousands."""
    found = [await _reach_json(reach) for reach in reaches]
    await free_in_slices(*(reach.moves for reach in reaches))
    return found


async def _reach_json(reach: Reach) -> dict[str, Any]:
    wait = reach.first_wait
    gentler = (
        None
        if wait is None or wait.gentler is None
        else {"value": wait.gentler, "first_wait_ms": wait.gentler_ms}
    )
    return {
        "key": reach.key,
        "counted": reach.counted,
        "clients": reach.clients,
        "over": reach.over,
        "unmeasured": reach.unmeasured,
        "moved": sum(move.clients for move in reach.moves.values()),
        "moves": [_move_json(*rules, move) for rules, move in islice(reach.moves.items(), MAX_MOVES)],
        "outranked": await collect(
            {"entity": json_of(entity), "clients": count} for entity, count in reach.outranked.items()
        ),
        "emptied": await collect(as_json(rule) for rule in reach.emptied),
        "first_wait_ms": 0 if wait is None else wait.wait_ms,
        "gentler": gentler,
        "shadow": reach.shadow,
        "unlisted": reach.unlisted,
        "unheard": list(reach.without_report),
    }


def _move_json(before: LimitingRule, after: LimitingRule, move: MovedClients) -> dict[str, Any]:
    return {"from": as_json(before), "to": as_json(after)} | as_json(move)
