"""Divides a recorded load into parts that can be simulated apart, and puts their results together.

Used by `pipeline.what_if`, whose executors simulate the parts. A quota keeps a separate state for each
allowance, so clients affect each other only if they share one. Clients of one part are those that share an
allowance; together the parts' results are those of `engine.run_scenario` for the whole load.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from broker.config.sections import QuotaConfig
from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.simulation.engine import MAX_EVENTS, allowance, bandwidth_of, quotas_of, run_scenario
from broker.simulation.scenario import ClientLoad, Limit, Scenario
from broker.simulation.summary import (
    ClientGroupTotals,
    RuleTotals,
    SimulationSummary,
    Totals,
    groups,
    limits_without_effect,
)

SETTINGS: Final = QuotaConfig()
"""A broker's defaults, as for a scenario without settings."""


class RecordedClient(msgspec.Struct, frozen=True):
    """A client of a recorded load, and whether it produces or fetches."""

    user: str
    client_id: str
    kind: QuotaKind


class Placed(msgspec.Struct, frozen=True):
    """The limit of a client, with the number of the part to which the client belongs."""

    part: int
    entity: Entity | None
    bound: float | None


def parts_of(clients: Iterable[RecordedClient], limits: tuple[Limit, ...]) -> list[Placed]:
    """Return the place of each client. Parts count from 0; a client without a limit is one by itself."""
    quotas = quotas_of(Scenario(0, limits, SETTINGS))
    known: dict[object, int] = {}
    found = []
    for number, client in enumerate(clients):
        names = client.user, client.client_id
        limit = bandwidth_of(quotas, client.kind).resolve(*names)
        if limit.matched is None:
            shared: object = number
        else:
            shared = (client.kind, *allowance(limit.matched, names))
        found.append(Placed(known.setdefault(shared, len(known)), limit.matched, limit.bound))
    return found


def simulate_part(
    records: Sequence[ClientLoad], limits: tuple[Limit, ...], duration_us: int, max_events: int = MAX_EVENTS
) -> tuple[list[Totals], int]:
    """Return the totals of each record, and the number of requests that were simulated one by one.

    The records must be all of one or several parts, in the order of the whole load. Raises
    TooManyEventsError.
    """
    outcome = run_scenario(Scenario(duration_us, limits, SETTINGS, records=tuple(records)), max_events)
    return [row.totals for row in groups(outcome)], outcome.events


def joined(
    clients: Sequence[RecordedClient],
    placed: Sequence[Placed],
    totals: Sequence[Totals],
    limits: tuple[Limit, ...],
    duration_us: int,
    events: int,
) -> SimulationSummary:
    """Return the summary of the whole load. Clients are in its order, with the totals of each."""
    scenario = Scenario(duration_us, limits, SETTINGS)
    rows = []
    under: dict[tuple[str, Entity], tuple[float, Totals, set[object]]] = {}
    for client, place, total in zip(clients, placed, totals, strict=True):
        rule = None
        if place.entity is not None and place.bound is not None:
            key = KEY_OF[client.kind]
            rule = (place.entity, key, place.bound)
            bound, before, parts = under.get((key, place.entity), (place.bound, Totals(), set()))
            parts.add(place.part)
            under[key, place.entity] = bound, before + total, parts
        rows.append(ClientGroupTotals(f"{client.user}, {client.client_id}", client.kind, 1, (rule,), total))
    rules = (
        RuleTotals(entity, key, bound, len(parts), total)
        for (key, entity), (bound, total, parts) in under.items()
    )
    return SimulationSummary(
        duration_us,
        scenario.seed,
        len(rows),
        events,
        tuple(rows),
        tuple(rules),
        tuple(limits_without_effect(scenario)),
    )
