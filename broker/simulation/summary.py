"""The totals of a simulation, per group of clients and per rule.

Computed from the outcome of `engine`; shown by `report`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.simulation.engine import Outcome, SimulatedClient, allowance
from broker.simulation.scenario import SECOND_US, Group


@dataclass(frozen=True, slots=True)
class Account:
    """Totals of some connections: bytes offered, accepted, given up, and still waiting at the end.

    `held_share` is the throttled part of their time, `throttles` the number of throttles.
    """

    connections: int
    offered: int
    accepted: int
    given_up: int
    waiting: int
    held_share: float
    throttles: int
    mean_ms: float
    longest_ms: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group's totals. `rules` are the (entity, key, limit) that govern its clients; None stands for
    clients without a limit.
    """

    name: str
    kind: QuotaKind
    clients: int
    rules: tuple[tuple[Entity, str, float] | None, ...]
    account: Account

    @property
    def key(self) -> str:
        """The quota key of the limits on such clients."""
        return KEY_OF[self.kind]


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule's totals. `allowances` is the number of clients or users that have this limit separately."""

    entity: Entity
    key: str
    limit: float
    allowances: int
    account: Account


def groups(outcome: Outcome) -> list[GroupRow]:
    """Return the groups in the order of the scenario; each client of a recorded load is a group."""
    members: dict[int, list[SimulatedClient]] = {}
    for player in outcome.players:
        members.setdefault(id(player.party), []).append(player)
    return [_group(players, outcome) for players in members.values()]


def rules(outcome: Outcome) -> list[RuleRow]:
    """Return every rule that applied to a client, in order of first use."""
    under: dict[tuple[str, Entity], list[SimulatedClient]] = {}
    limits: dict[tuple[str, Entity], float] = {}
    for player in outcome.players:
        for kind, found in ((player.connection.kind, player.bandwidth), (QuotaKind.REQUEST, player.request)):
            # Without a handling time there is nothing to record for the request quota.
            timed = isinstance(player.party, Group) and player.party.handling_ns
            if (
                found.matched is not None
                and found.bound is not None
                and (kind is not QuotaKind.REQUEST or timed)
            ):
                key = (KEY_OF[kind], found.matched)
                limits[key] = found.bound
                under.setdefault(key, []).append(player)
    return [
        RuleRow(
            entity,
            key,
            limits[key, entity],
            len({allowance(entity, (p.connection.user, p.connection.client_id)) for p in players}),
            _account(players, outcome, [kind for kind, name in KEY_OF.items() if name == key]),
        )
        for (key, entity), players in under.items()
    ]


def _group(players: list[SimulatedClient], outcome: Outcome) -> GroupRow:
    party, kind = players[0].party, players[0].connection.kind
    name = party.name if isinstance(party, Group) else f"{party.user}, {party.client_id}"
    found = {player.bandwidth.matched: player.bandwidth.bound for player in players}
    return GroupRow(
        name,
        kind,
        party.count if isinstance(party, Group) else 1,
        tuple(
            None if rule is None or bound is None else (rule, KEY_OF[kind], bound)
            for rule, bound in found.items()
        ),
        _account(players, outcome, [kind, QuotaKind.REQUEST]),
    )


def _account(players: list[SimulatedClient], outcome: Outcome, kinds: Iterable[QuotaKind]) -> Account:
    connections = [player.connection for player in players]
    accepted = sum(each.accepted_bytes for each in connections)
    given_up = sum(each.sender.given_up.nbytes for each in connections)
    offered = sum(
        player.connection.accepted_bytes if player.offered is None else player.offered for player in players
    )
    holds = [each.holds[kind] for each in connections for kind in kinds if kind in each.holds]
    throttles = sum(hold.count for hold in holds)
    held_ms = sum(hold.total_ms for hold in holds)
    present_us = sum(_present_us(player, outcome) for player in players)
    return Account(
        connections=len(players),
        offered=offered,
        accepted=accepted,
        given_up=given_up,
        waiting=max(offered - accepted - given_up, 0),
        # The last throttle may extend beyond the end.
        held_share=min(held_ms * 1_000 / present_us, 1.0) if present_us else 0.0,
        throttles=throttles,
        mean_ms=held_ms / throttles if throttles else 0.0,
        longest_ms=max((hold.longest_ms for hold in holds), default=0),
    )


def _present_us(player: SimulatedClient, outcome: Outcome) -> int:
    party = player.party
    if isinstance(party, Group):
        return party.present_us
    return (
        min((party.seconds[-1] + 1) * SECOND_US, outcome.scenario.duration_us) - party.seconds[0] * SECOND_US
    )


def not_played(outcome: Outcome) -> list[str]:
    """Return the limits of the quota file that have no effect in the simulation, one sentence each."""
    said: list[str] = []
    timed = any(group.handling_ns for group in outcome.scenario.groups)
    for limit in outcome.scenario.limits:
        for key in limit.values:
            if key in ("producer_byte_rate", "consumer_byte_rate") or (key == "request_percentage" and timed):
                continue
            why = "no client has a handling time" if key == "request_percentage" else "it is not simulated"
            said.append(f"{key} of {limit.entity}: {why}")
    return said
