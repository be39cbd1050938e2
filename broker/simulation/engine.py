"""Everybody at once: the requests of all connections in the order of time, on a clock that jumps.

Called by the command line and by tests. The same scenario gives the same outcome, to the bit: ties go to the
connection that was made first, and the only chance is in when within its interval a client sends its first
request, which the seed decides.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final

from broker.simulation.clients import SimulatedClient, players
from broker.simulation.scenario import SECOND_US, Scenario

MOST_EVENTS: Final = 100_000_000


class TooManyEventsError(Exception):
    """It would take too long; the message says how far it came."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scenario. `events` are the requests that were played one by one."""

    scenario: Scenario
    players: tuple[SimulatedClient, ...]
    events: int


def play(scenario: Scenario, most_events: int = MOST_EVENTS) -> Outcome:
    """Raises TooManyEventsError."""
    everybody = players(scenario)
    connections = [player.connection for player in everybody]
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
        if events >= most_events:
            raise TooManyEventsError(
                f"{events:,} requests were played, and the clock is at {at_us / SECOND_US:,.0f} s of "
                f"{end_us / SECOND_US:,.0f}: larger requests, fewer clients or a shorter time are needed"
            )
        events += 1
        connection.ask(at_us)
        next_us = connection.next_at()
        if next_us is None:
            heappop(heap)
        else:
            heapreplace(heap, (next_us, index, connection))
    return Outcome(scenario, everybody, events)
