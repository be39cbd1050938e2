"""The totals of a simulation, per group of clients and per rule.

Computed from the outcome of `engine`; shown by `report`.
"""

from collections.abc import Iterable

import msgspec

from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.simulation.engine import Outcome, SimulatedClient, allowance
from broker.simulation.scenario import SECOND_US, Group


class Totals(msgspec.Struct, frozen=True):
    """Totals of some connections: bytes offered, accepted, given up, and still waiting at the end.

    `throttled_share` is the throttled part of their time, `throttles` the number of throttles.
    """

    connections: int
    offered: int
    accepted: int
    expired: int
    waiting: int
    throttled_share: float
    throttles: int
    mean_ms: float
    longest_ms: int


class GroupRow(msgspec.Struct, frozen=True):
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


class RuleRow(msgspec.Struct, frozen=True):
    """A rule's totals. `allowances` is the number of clients or users that have this limit separately."""

    entity: Entity
    key: str
    limit: float
    allowances: int
    totals: Totals


def groups(outcome: Outcome) -> list[GroupRow]:
    """Return the groups in the order of the scenario; each client of a recorded load is a group."""
    members: dict[int, list[SimulatedClient]] = {}
    for client in outcome.clients:
        members.setdefault(id(client.source), []).append(client)
    return [_group(clients, outcome) for clients in members.values()]


def rules(outcome: Outcome) -> list[RuleRow]:
    """Return every rule that applied to a client, in order of first use."""
    under: dict[tuple[str, Entity], list[SimulatedClient]] = {}
    limits: dict[tuple[str, Entity], float] = {}
    for client in outcome.clients:
        for kind, found in ((client.connection.kind, client.bandwidth), (QuotaKind.REQUEST, client.request)):
            # Without a handling time there is nothing to record for the request quota.
            timed = isinstance(client.source, Group) and client.source.handling_ns
            if (
                found.matched is not None
                and found.bound is not None
                and (kind is not QuotaKind.REQUEST or timed)
            ):
                key = (KEY_OF[kind], found.matched)
                limits[key] = found.bound
                under.setdefault(key, []).append(client)
    return [
        RuleRow(
            entity,
            key,
            limits[key, entity],
            len({allowance(entity, (p.connection.user, p.connection.client_id)) for p in clients}),
            _totals(clients, outcome, [kind for kind, name in KEY_OF.items() if name == key]),
        )
        for (key, entity), clients in under.items()
    ]


def _group(clients: list[SimulatedClient], outcome: Outcome) -> GroupRow:
    source, kind = clients[0].source, clients[0].connection.kind
    name = source.name if isinstance(source, Group) else f"{source.user}, {source.client_id}"
    found = {client.bandwidth.matched: client.bandwidth.bound for client in clients}
    return GroupRow(
        name,
        kind,
        source.count if isinstance(source, Group) else 1,
        tuple(
            None if rule is None or bound is None else (rule, KEY_OF[kind], bound)
            for rule, bound in found.items()
        ),
        _totals(clients, outcome, [kind, QuotaKind.REQUEST]),
    )


def _totals(clients: list[SimulatedClient], outcome: Outcome, kinds: Iterable[QuotaKind]) -> Totals:
    connections = [client.connection for client in clients]
    accepted = sum(each.accepted_bytes for each in connections)
    expired = sum(each.sender.expired.nbytes for each in connections)
    offered = sum(
        client.connection.accepted_bytes if client.offered is None else client.offered for client in clients
    )
    records = [each.throttles[kind] for each in connections for kind in kinds if kind in each.throttles]
    throttles = sum(each.count for each in records)
    throttled_ms = sum(each.total_ms for each in records)
    present_us = sum(_present_us(client, outcome) for client in clients)
    return Totals(
        connections=len(clients),
        offered=offered,
        accepted=accepted,
        expired=expired,
        waiting=max(offered - accepted - expired, 0),
        # The last throttle may extend beyond the end.
        throttled_share=min(throttled_ms * 1_000 / present_us, 1.0) if present_us else 0.0,
        throttles=throttles,
        mean_ms=throttled_ms / throttles if throttles else 0.0,
        longest_ms=max((each.longest_ms for each in records), default=0),
    )


def _present_us(client: SimulatedClient, outcome: Outcome) -> int:
    source = client.source
    if isinstance(source, Group):
        return source.present_us
    end_us = min((source.seconds[-1] + 1) * SECOND_US, outcome.scenario.duration_us)
    return end_us - source.seconds[0] * SECOND_US


def limits_without_effect(outcome: Outcome) -> list[str]:
    """Return the limits of the quota file that have no effect in the simulation, one sentence each."""
    sentences: list[str] = []
    timed = any(group.handling_ns for group in outcome.scenario.groups)
    for limit in outcome.scenario.limits:
        for key in limit.values:
            if key in ("producer_byte_rate", "consumer_byte_rate") or (key == "request_percentage" and timed):
                continue
            why = "no client has a handling time" if key == "request_percentage" else "it is not simulated"
            sentences.append(f"{key} of {limit.entity}: {why}")
    return sentences
