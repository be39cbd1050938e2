"""The totals of a simulation, per group of clients and per rule.

Computed from the result of `engine`; shown by `report`.
"""

from collections.abc import Iterable

import msgspec

from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.simulation.engine import SimulatedClient, SimulationResult, allowance
from broker.simulation.scenario import SECOND_US, ClientGroup, Scenario


class Totals(msgspec.Struct, frozen=True):
    """Totals of some connections; those of several sets of connections can be added.

    `offered`, `accepted` and `expired` are bytes; `throttles`, `throttled_ms` and `longest_ms` are number,
    sum and maximum of the throttles; `present_us` is the sum of the connections' times.
    """

    connections: int = 0
    offered: int = 0
    accepted: int = 0
    expired: int = 0
    throttles: int = 0
    throttled_ms: int = 0
    longest_ms: int = 0
    present_us: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.connections + other.connections,
            self.offered + other.offered,
            self.accepted + other.accepted,
            self.expired + other.expired,
            self.throttles + other.throttles,
            self.throttled_ms + other.throttled_ms,
            max(self.longest_ms, other.longest_ms),
            self.present_us + other.present_us,
        )

    @property
    def waiting(self) -> int:
        """The bytes that still wait at the end."""
        return max(self.offered - self.accepted - self.expired, 0)

    @property
    def throttled_share(self) -> float:
        """The throttled part of the connections' time. The last throttle may extend beyond the end."""
        return min(self.throttled_ms * 1_000 / self.present_us, 1.0) if self.present_us else 0.0

    @property
    def mean_ms(self) -> float:
        return self.throttled_ms / self.throttles if self.throttles else 0.0


class ClientGroupTotals(msgspec.Struct, frozen=True):
    """A group's totals. `rules` are the (entity, key, limit) that govern its clients; None stands for
    clients without a limit.
    """

    name: str
    kind: QuotaKind
    clients: int
    rules: tuple[tuple[Entity, str, float] | None, ...]
    totals: Totals

    @property
    def key(self) -> str:
        """The quota key of the limits on such clients."""
        return KEY_OF[self.kind]


class RuleTotals(msgspec.Struct, frozen=True):
    """A rule's totals. `allowances` is the number of clients or users that have this limit separately."""

    entity: Entity
    key: str
    limit: float
    allowances: int
    totals: Totals


class SimulationSummary(msgspec.Struct, frozen=True):
    """The result of a simulation. `events` counts the requests that were simulated one by one.

    `without_effect` are the limits that have no effect in the simulation, one sentence each.
    """

    duration_us: int
    seed: int
    connections: int
    events: int
    groups: tuple[ClientGroupTotals, ...]
    rules: tuple[RuleTotals, ...]
    without_effect: tuple[str, ...]


def summary_of(result: SimulationResult) -> SimulationSummary:
    """Return the summary of a whole scenario."""
    return SimulationSummary(
        result.scenario.duration_us,
        result.scenario.seed,
        len(result.clients),
        result.events,
        tuple(groups(result)),
        tuple(rules(result)),
        tuple(limits_without_effect(result.scenario)),
    )


def groups(result: SimulationResult) -> list[ClientGroupTotals]:
    """Return the groups in the order of the scenario; each client of a recorded load is a group."""
    members: dict[int, list[SimulatedClient]] = {}
    for client in result.clients:
        members.setdefault(id(client.source), []).append(client)
    return [_group(clients, result) for clients in members.values()]


def rules(result: SimulationResult) -> list[RuleTotals]:
    """Return every rule that applied to a client, in order of first use."""
    under: dict[tuple[str, Entity], list[SimulatedClient]] = {}
    limits: dict[tuple[str, Entity], float] = {}
    for client in result.clients:
        for kind, found in ((client.connection.kind, client.bandwidth), (QuotaKind.REQUEST, client.request)):
            # Without a handling time there is nothing to record for the request quota.
            timed = isinstance(client.source, ClientGroup) and client.source.handling_ns
            if (
                found.matched is not None
                and found.bound is not None
                and (kind is not QuotaKind.REQUEST or timed)
            ):
                key = (KEY_OF[kind], found.matched)
                limits[key] = found.bound
                under.setdefault(key, []).append(client)
    return [
        RuleTotals(
            entity,
            key,
            limits[key, entity],
            len({allowance(entity, (p.connection.user, p.connection.client_id)) for p in clients}),
            _totals(clients, result, [kind for kind, name in KEY_OF.items() if name == key]),
        )
        for (key, entity), clients in under.items()
    ]


def _group(clients: list[SimulatedClient], result: SimulationResult) -> ClientGroupTotals:
    source, kind = clients[0].source, clients[0].connection.kind
    name = source.name if isinstance(source, ClientGroup) else f"{source.user}, {source.client_id}"
    found = {client.bandwidth.matched: client.bandwidth.bound for client in clients}
    return ClientGroupTotals(
        name,
        kind,
        source.count if isinstance(source, ClientGroup) else 1,
        tuple(
            None if rule is None or bound is None else (rule, KEY_OF[kind], bound)
            for rule, bound in found.items()
        ),
        _totals(clients, result, [kind, QuotaKind.REQUEST]),
    )


def _totals(clients: list[SimulatedClient], result: SimulationResult, kinds: Iterable[QuotaKind]) -> Totals:
    connections = [client.connection for client in clients]
    accepted = sum(each.accepted_bytes for each in connections)
    expired = sum(each.sender.expired.nbytes for each in connections)
    offered = sum(
        client.connection.accepted_bytes if client.offered is None else client.offered for client in clients
    )
    records = [each.throttles[kind] for each in connections for kind in kinds if kind in each.throttles]
    return Totals(
        connections=len(clients),
        offered=offered,
        accepted=accepted,
        expired=expired,
        throttles=sum(each.count for each in records),
        throttled_ms=sum(each.total_ms for each in records),
        longest_ms=max((each.longest_ms for each in records), default=0),
        present_us=sum(_present_us(client, result) for client in clients),
    )


def _present_us(client: SimulatedClient, result: SimulationResult) -> int:
    source = client.source
    if isinstance(source, ClientGroup):
        return source.present_us
    end_us = min((source.seconds[-1] + 1) * SECOND_US, result.scenario.duration_us)
    return end_us - source.seconds[0] * SECOND_US


def limits_without_effect(scenario: Scenario) -> list[str]:
    """Return the limits of the quota file that have no effect in the simulation, one sentence each."""
    sentences: list[str] = []
    timed = any(group.handling_ns for group in scenario.groups)
    for limit in scenario.limits:
        for key in limit.values:
            if key in ("producer_byte_rate", "consumer_byte_rate") or (key == "request_percentage" and timed):
                continue
            why = "no client has a handling time" if key == "request_percentage" else "it is not simulated"
            sentences.append(f"{key} of {limit.entity}: {why}")
    return sentences
