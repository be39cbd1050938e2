"""Scenarios for the simulation's tests, some minutes long."""

from typing import Any

from broker.config.sections import QuotaConfig
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.engine import SimulatedClient, SimulationResult, run_scenario
from broker.simulation.scenario import SECOND_US, ClientGroup, Limit, Piece, Scenario

MINUTE_US = 60 * SECOND_US


def always(duration_us: int = MINUTE_US) -> tuple[Piece, ...]:
    return (Piece(0, duration_us, 1.0),)


def group(
    name: str = "g", rate: float | None = None, request_bytes: int = 1_000, **others: Any
) -> ClientGroup:
    kind = others.pop("kind", QuotaKind.PRODUCE)
    pieces = others.pop("pieces", always())
    return ClientGroup(
        name,
        kind,
        others.pop("count", 1),
        others.pop("user", "u"),
        others.pop("client_id", f"{name}-{{n}}"),
        request_bytes,
        rate,
        pieces,
        **others,
    )


def limit(bound: float, key: str = "producer_byte_rate", **entity: Any) -> Limit:
    return Limit(Entity(**(entity or {"user": "u"})), {key: bound})


def scenario(*groups: ClientGroup, limits: tuple[Limit, ...] = (), **others: Any) -> Scenario:
    return Scenario(
        others.pop("duration_us", MINUTE_US), limits, others.pop("settings", QuotaConfig()), groups, **others
    )


def one(result: SimulationResult) -> SimulatedClient:
    (client,) = result.clients
    return client


def accepted(client: SimulatedClient) -> int:
    return client.connection.accepted_bytes


def simulated(*groups: ClientGroup, limits: tuple[Limit, ...] = (), **others: Any) -> SimulationResult:
    return run_scenario(scenario(*groups, limits=limits, **others))
