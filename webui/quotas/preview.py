"""Whom an edit would reach, before it is made.

Asked by PATCH /client-quotas?validate_only=true. For every connected client it looks at the probes that the
broker makes for it (control.views.resolve_all): a rule reaches a client if its entity is among the probes, no
later than the rule that governs the client now. Rates are those of the client's present sensor, so a client
that no rule has measured yet counts as unmeasured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from broker.control.commands import EntityPairs, QuotaOp
from broker.control.views import ConnectionRow, ProbeRow, ResolvedLimit, Views
from webui.shapes import finite

MOST_CLIENTS: Final = 2_000
"""Distinct clients that are looked at; a bound on the work of one keystroke."""

AT_ONCE: Final = 100
"""Clients looked at without a pause: 100 of them are 3 to 12 ms."""


@dataclass(frozen=True, slots=True)
class Client:
    """Everything quotas can tell apart: one principal under one client id."""

    principal: str
    client_id: str


@dataclass(slots=True)
class Reach:
    """Of one key. `over` of the clients are above the new bound now; of `unmeasured` nothing is known.
    `falls_to` is where the clients of a removed limit go: bound -> how many, None being no limit. `shadowed`
    clients bear the entity's names too, but are governed by a rule that goes before it.
    """

    key: str
    clients: int = 0
    over: int = 0
    unmeasured: int = 0
    falls_to: dict[float | None, int] = field(default_factory=dict)
    shadowed: dict[EntityPairs, int] = field(default_factory=dict)


async def preview(
    views: Views, entity: EntityPairs, ops: Sequence[QuotaOp], connections: Iterable[ConnectionRow]
) -> list[Reach]:
    """One Reach per op, in order. Lets others run in between."""
    clients = list({Client(row.principal, row.client_id): None for row in connections})[:MOST_CLIENTS]
    reaches = [Reach(op.key) for op in ops]
    keys = {op.key for op in ops}
    wanted = set(entity)
    for start in range(0, len(clients), AT_ONCE):
        batch = [(client.principal, client.client_id) for client in clients[start : start + AT_ONCE]]
        for resolved in views.resolve_all(batch, keys):
            limits = {limit.key: limit for limit in resolved}
            for op, reach in zip(ops, reaches, strict=True):
                if op.key in limits:
                    _count(reach, op, limits[op.key], wanted)
        await trio.lowlevel.checkpoint()
    return reaches


def _count(reach: Reach, op: QuotaOp, limit: ResolvedLimit, wanted: set[tuple[str, str | None]]) -> None:
    before: EntityPairs | None = None
    for position, probe in enumerate(limit.probes):
        if set(probe.entity) == wanted:
            if before is not None:
                reach.shadowed[before] = reach.shadowed.get(before, 0) + 1
            elif op.value is not None:
                _count_set(reach, op.value, finite(limit.observed))
            elif probe.matched:
                _count_removed(reach, limit.probes[position + 1 :])
            return
        if probe.matched:
            before = probe.entity


def _count_set(reach: Reach, value: float, observed: float | None) -> None:
    reach.clients += 1
    if observed is None:
        reach.unmeasured += 1
    elif observed > value:
        reach.over += 1


def _count_removed(reach: Reach, later: Sequence[ProbeRow]) -> None:
    reach.clients += 1
    bound = next((probe.value for probe in later if probe.value is not None), None)
    reach.falls_to[bound] = reach.falls_to.get(bound, 0) + 1
