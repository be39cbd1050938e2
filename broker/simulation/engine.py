"""Runs the requests of all connections in order of time on a simulated clock.

Called by the command line and by tests. Deterministic: ties go to the connection that was made first, and
the only random value, the phase of a client's first request within its interval, comes from the seed.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final

from broker.simulation.clients import SimulatedClient, players
from broker.simulation.scenario import SECOND_US, Scenario

MAX_EVENTS: Final = 100_000_000


class TooManyEventsError(Exception):
    """The simulation would take too long; the message says how far it got."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scenario. `events` counts the requests that were simulated one by one."""

    scenario: Scenario
    players: tuple[SimulatedClient, ...]
    events: int


def play(scenario: Scenario, max_events: int = MAX_EVENTS) -> Outcome:
    """Run the scenario. Raises TooManyEventsError."""
    clients = players(scenario)
    connections = [player.connection for player in clients]
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
        connection.ask(at_us)
        next_us = connection.next_at()
        if next_us is None:
            heappop(heap)
        else:
            heapreplace(heap, (next_us, index, connection))
    return Outcome(scenario, clients, events)
