"""Makes the connections of a scenario and runs their requests in order of time on a simulated clock.

Called by the command line, for what-if and by tests. Clients under one limit are collected together, because
its idle periods depend on all of them. Deterministic: ties go to the connection that was made first, and the
only random value, the phase of a client's first request within its interval, comes from the seed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heapreplace
from random import Random
from typing import Final

import msgspec

from broker.metrics.rate import Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS
from broker.quotas.table import Resolution
from broker.simulation.arrivals import (
    Arrival,
    RequestSender,
    even_arrival_count,
    even_arrivals,
    greedy_arrivals,
    recorded_arrivals,
)
from broker.simulation.connection import SimulatedConnection
from broker.simulation.idle_periods import FOREVER, ConnectionDemand, IdlePeriods
from broker.simulation.scenario import SECOND_US, ClientGroup, ClientLoad, Piece, Scenario

MAX_EVENTS: Final = 100_000_000

LoadSource = ClientGroup | ClientLoad


class SimulatedClient(msgspec.Struct, frozen=True):
    """A connection, its group or record, and its limits.

    `offered` is the bytes that it wanted to send by the end; None for a greedy client, which offers what is
    accepted.
    """

    source: LoadSource
    connection: SimulatedConnection
    bandwidth: Resolution
    request: Resolution
    offered: int | None


class TooManyEventsError(Exception):
    """The simulation would take too long; the message says how far it got."""


class SimulationResult(msgspec.Struct, frozen=True):
    """The result of a scenario. `events` counts the requests that were simulated one by one."""

    scenario: Scenario
    clients: tuple[SimulatedClient, ...]
    events: int


def run_scenario(scenario: Scenario, max_events: int = MAX_EVENTS) -> SimulationResult:
    """Run the scenario. Raises TooManyEventsError."""
    clients = make_clients(scenario)
    connections = [client.connection for client in clients]
    heap = [
        (at_us, index, connection)
        for index, connection in enumerate(connections)
        if (at_us := connection.next_at()) is not None
    ]
    heapify(heap)
    events, end_us = 0, scenario.duration_us
    while heap:
        at_us, index, connection = heap[0]
        if at_us >= end_us:
            break
        if events >= max_events:
            raise TooManyEventsError(
                f"{events:,} requests were simulated up to {at_us / SECOND_US:,.0f} s of "
                f"{end_us / SECOND_US:,.0f}; use larger requests, fewer clients or a shorter duration"
            )
        events += 1
        connection.send(at_us)
        next_us = connection.next_at()
        if next_us is None:
            heappop(heap)
        else:
            heapreplace(heap, (next_us, index, connection))
    return SimulationResult(scenario, clients, events)


def make_clients(scenario: Scenario) -> tuple[SimulatedClient, ...]:
    """Return all connections in the order of the scenario."""
    return tuple(_Clients(scenario).clients)


def quotas_of(scenario: Scenario) -> ClientQuotas:
    """Return the broker's quotas with the scenario's limits."""
    settings = scenario.settings
    quotas = ClientQuotas(
        Window(settings.window_num, settings.window_size_seconds * 1000),
        longest_throttle_ms=settings.longest_throttle_ms,
        paced=settings.bandwidth_algorithm == "paced",
        burst_ms=settings.burst_ms,
    )
    for limit in scenario.limits:
        for key, value in limit.values.items():
            quotas.apply(limit.entity, key, value)
        quotas.set_shadow(limit.entity, is_shadow=limit.is_shadow)
    return quotas


def bandwidth_of(quotas: ClientQuotas, kind: QuotaKind) -> RateQuotaManager:
    """Return the manager of a client's byte rate."""
    return quotas.fetch if kind is QuotaKind.FETCH else quotas.produce


class _Clients:
    """Makes the connections of a scenario, each with the idle periods of its limits."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._quotas = quotas_of(scenario)
        self._window = Window(scenario.settings.window_num, scenario.settings.window_size_seconds * 1000)
        self._demands: dict[object, list[ConnectionDemand]] = {}
        self._bounds: dict[object, float] = {}
        self._idle_periods: dict[object, IdlePeriods] = {}
        random = Random(scenario.seed)  # noqa: S311 - a simulation
        sources = list(self._sources())
        for source, names in sources:
            self._count(source, names)
        for shared, demands in self._demands.items():
            self._idle_periods[shared] = IdlePeriods(
                demands, self._bounds[shared], self._window, scenario.settings.burst_ms
            )
        self.clients = [
            self._client(source, names, random)
            for source, names in sources
            for _ in range(source.connections if isinstance(source, ClientGroup) else 1)
        ]

    def _sources(self) -> Iterator[tuple[LoadSource, tuple[str, str]]]:
        for group in self._scenario.groups:
            for number in range(1, group.count + 1):
                yield group, group.names(number)
        for record in self._scenario.records:
            yield record, (record.user, record.client_id)

    def _count(self, source: LoadSource, names: tuple[str, str]) -> None:
        """Add a client's demand to its limits."""
        for manager, shared, found in self._limits(source, names):
            assert found.bound is not None
            self._bounds[shared] = found.bound
            self._demands.setdefault(shared, []).append(self._demand(source, manager.kind, found.bound))

    def _demand(self, source: LoadSource, kind: QuotaKind, bound: float) -> ConnectionDemand:
        if isinstance(source, ClientLoad):
            # A recording's demand is unknown before it is read, so it is always simulated.
            return ConnectionDemand((Piece(0, self._scenario.duration_us, 1.0),), 2 * bound, 0)
        cost = float(source.request_bytes)
        if kind is QuotaKind.REQUEST:
            cost = source.handling_ns * PERCENT_OF_A_SECOND_PER_NS
        per_second = SECOND_US / self._interval_us(source) * source.connections
        return ConnectionDemand(source.pieces, cost * per_second, cost * source.connections)

    def _interval_us(self, group: ClientGroup) -> float:
        if group.rate is None:
            return self._scenario.latency_us
        return group.request_bytes * group.connections / group.rate * SECOND_US

    def _limits(
        self, source: LoadSource, names: tuple[str, str]
    ) -> Iterator[tuple[RateQuotaManager, object, Resolution]]:
        """Yield the limits of a client, each with the key that all clients of the same allowance share."""
        managers: list[RateQuotaManager] = [bandwidth_of(self._quotas, source.kind)]
        if isinstance(source, ClientGroup) and source.handling_ns:
            managers.append(self._quotas.request)
        for manager in managers:
            found = manager.resolve(*names)
            if found.matched is not None:
                yield manager, (manager.kind, *allowance(found.matched, names)), found

    def _client(self, source: LoadSource, names: tuple[str, str], random: Random) -> SimulatedClient:
        group = source if isinstance(source, ClientGroup) else None
        idles = [self._idle_periods[shared] for _, shared, _ in self._limits(source, names)]
        arrivals: Callable[[RequestSender], Iterator[Arrival]]
        offered: int | None
        if isinstance(source, ClientLoad):
            arrivals = partial(recorded_arrivals, source)
            offered = sum(source.nbytes)
        elif source.rate is None:
            latency_us = self._scenario.latency_us
            arrivals = partial(greedy_arrivals, source.pieces, latency_us, source.request_bytes)
            offered = None
        else:
            interval_us, phase = self._interval_us(source), random.random()
            arrivals = partial(even_arrivals, source.pieces, interval_us, source.request_bytes, phase)
            offered = even_arrival_count(source.pieces, interval_us, phase) * source.request_bytes
        connection = SimulatedConnection(
            self._quotas,
            source.kind,
            names,
            idles or [IdlePeriods((), FOREVER, self._window)],
            arrivals,
            latency_us=self._scenario.latency_us,
            obeys=group.obeys if group else True,
            batch_bytes=group.batch_bytes if group else 0,
            patience_us=group.patience_us if group else None,
            handling_ns=group.handling_ns if group else 0,
        )
        manager = bandwidth_of(self._quotas, source.kind)
        return SimulatedClient(
            source, connection, manager.resolve(*names), self._quotas.request.resolve(*names), offered
        )


def allowance(rule: Entity, names: tuple[str, str]) -> tuple[str | None, str | None]:
    """Return the key of an allowance under a rule: a default has one allowance for each name."""
    user, client_id = names
    return (None if rule.user is None else user, None if rule.client_id is None else client_id)
