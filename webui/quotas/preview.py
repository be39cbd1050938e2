"""Whom an edit would reach, before it is made.

Asked by PATCH /client-quotas?validate_only=true. Every connected client is resolved with the rules as they
are and as they would be (control.views.resolve_all): the edit reaches those whom its entity would govern, or
whom it governs no longer. What clients do counts together where they would share the limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import trio

from broker.control.commands import EntityPairs, QuotaAlteration
from broker.control.views import ConnectionRow, ResolvedLimit, Views

MOST_CLIENTS: Final = 2_000
"""Distinct clients that are looked at; a bound on the work of one keystroke."""

AT_ONCE: Final = 50
"""Clients looked at without a pause: 50 of them are 3 to 12 ms."""


@dataclass(frozen=True, slots=True)
class Client:
    """Everything quotas can tell apart: one principal under one client id."""

    principal: str
    client_id: str


@dataclass(slots=True)
class Reach:
    """Of one key. `over` of the clients do more now than they would be allowed; of `unmeasured` nothing is
    known. `falls_to` is where the clients of a removed limit go: bound -> how many, None being no limit.
    `outranked` clients bear the entity's names too, but are governed by a rule that goes before it. `shadow`:
    the limit would be measured and not enforced.
    """

    key: str
    clients: int = 0
    over: int = 0
    unmeasured: int = 0
    falls_to: dict[float | None, int] = field(default_factory=dict)
    outranked: dict[EntityPairs, int] = field(default_factory=dict)
    shadow: bool = False


async def preview(views: Views, edit: QuotaAlteration, connections: Iterable[ConnectionRow]) -> list[Reach]:
    """One Reach per op, in order; then one for each limit that only goes into shadow, or out of it. Lets
    others run in between.
    """
    clients = list({Client(row.principal, row.client_id): None for row in connections})[:MOST_CLIENTS]
    reaches = {key: Reach(key) for key in _keys(views, edit)}
    names = [(client.principal, client.client_id) for client in clients]
    wanted = set(edit.entity)
    for count, limits in enumerate(views.resolve_all(names, reaches.keys(), (edit,)), 1):
        for now, then in limits:
            _count(reaches[now.key], now, then, wanted)
        if count % AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    return list(reaches.values())


def _keys(views: Views, edit: QuotaAlteration) -> list[str]:
    keys = [op.key for op in edit.ops]
    row = None if edit.shadow is None else views.quota(edit.entity)
    return keys if row is None else [*keys, *(each.key for each in row.limits if each.key not in keys)]


def _count(
    reach: Reach, now: ResolvedLimit, then: ResolvedLimit, wanted: set[tuple[str, str | None]]
) -> None:
    if _is(then.matched, wanted):
        reach.clients += 1
        reach.shadow = then.shadow
        if then.observed is None:
            reach.unmeasured += 1
    elif _is(now.matched, wanted):
        reach.clients += 1
        reach.falls_to[then.bound] = reach.falls_to.get(then.bound, 0) + 1
    else:
        steps = [set(probe.entity) for probe in then.probes]
        if then.matched is not None and wanted in steps[steps.index(set(then.matched)) :]:
            reach.outranked[then.matched] = reach.outranked.get(then.matched, 0) + 1
        return
    if then.bound is not None and then.observed is not None and then.observed > then.bound:
        reach.over += 1


def _is(matched: EntityPairs | None, wanted: set[tuple[str, str | None]]) -> bool:
    return matched is not None and set(matched) == wanted
