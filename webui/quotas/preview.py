"""Preview of the clients that edits affect.

Used by PATCH /client-quotas?validate_only=true. Every connected client is resolved with the current rules
and with the rules after all edits (control.views.resolve_all). Edits affect the clients to which one of
their entities would apply, or no longer applies. The usage of clients that would share a limit is added up.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from broker.control.commands import EntityPairs, QuotaAlteration
from broker.control.views import ConnectionRow, ResolvedLimit, Views
from webui.tables.slices import sliced

MAX_CLIENTS: Final = 2_000
"""Maximum number of distinct clients; bounds the work of one keystroke."""


@dataclass(frozen=True, slots=True)
class Client:
    """What quotas distinguish: one principal with one client id."""

    principal: str
    client_id: str


@dataclass(slots=True)
class Reach:
    """The effect on one key. `over` clients currently exceed the new limit; `unmeasured` clients have no
    known usage. `falls_to` counts the clients of a removed limit by their new bound, None for no limit.
    `outranked` clients match the entity, but a more specific rule applies to them. `shadow`: the limit would
    be measured, not enforced.
    """

    key: str
    clients: int = 0
    over: int = 0
    unmeasured: int = 0
    falls_to: dict[float | None, int] = field(default_factory=dict)
    outranked: dict[EntityPairs, int] = field(default_factory=dict)
    shadow: bool = False


Named = frozenset[tuple[str, str | None]]
"""An entity, independent of the order of its parts."""


async def preview(
    views: Views, edits: Sequence[QuotaAlteration], connections: Iterable[ConnectionRow]
) -> list[Reach]:
    """Return one Reach for each key, in the order of the operations, then one for each limit that only enters
    or leaves shadow mode. Evaluates all edits together. Yields to other tasks in between.
    """
    clients = list({Client(row.principal, row.client_id): None for row in connections})[:MAX_CLIENTS]
    wanted = _wanted(views, edits)
    reaches = {key: Reach(key) for key in wanted}
    names = [(client.principal, client.client_id) for client in clients]
    async with aclosing(sliced(views.resolve_all(names, reaches.keys(), edits), at_once=1)) as slices:
        async for some in slices:
            for now, then in chain.from_iterable(some):
                _count(reaches[now.key], now, then, wanted[now.key])
    return list(reaches.values())


def _wanted(views: Views, edits: Sequence[QuotaAlteration]) -> dict[str, set[Named]]:
    """Return the edited entities of each key."""
    wanted: dict[str, set[Named]] = {}
    for edit in edits:
        row = None if edit.shadow is None else views.quota(edit.entity)
        marked = () if row is None else (limit.key for limit in row.limits)
        for key in (*(op.key for op in edit.ops), *marked):
            wanted.setdefault(key, set()).add(frozenset(edit.entity))
    return wanted


def _count(reach: Reach, now: ResolvedLimit, then: ResolvedLimit, wanted: AbstractSet[Named]) -> None:
    if _is(then.matched, wanted):
        reach.clients += 1
        reach.shadow = then.shadow
        if then.observed is None:
            reach.unmeasured += 1
    elif _is(now.matched, wanted):
        reach.clients += 1
        reach.falls_to[then.bound] = reach.falls_to.get(then.bound, 0) + 1
    else:
        steps = [frozenset(probe.entity) for probe in then.probes]
        if then.matched is not None and not wanted.isdisjoint(steps[steps.index(frozenset(then.matched)) :]):
            reach.outranked[then.matched] = reach.outranked.get(then.matched, 0) + 1
        return
    if then.bound is not None and then.observed is not None and then.observed > then.bound:
        reach.over += 1


def _is(matched: EntityPairs | None, wanted: AbstractSet[Named]) -> bool:
    return matched is not None and frozenset(matched) in wanted
