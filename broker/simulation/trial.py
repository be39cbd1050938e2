"""Tries one limit on one client's recorded seconds.

Used by `pipeline.gold.advice` to find a limit, which takes many trials: a trial can end as soon as it shows
that the limit throttles too much. The client is one connection, and the limit is its alone.
"""

from functools import partial
from math import inf
from typing import Final

import msgspec

from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.simulation.arrivals import recorded_arrivals
from broker.simulation.connection import SimulatedConnection
from broker.simulation.engine import quotas_of
from broker.simulation.idle_periods import FOREVER, ConnectionDemand, IdlePeriods
from broker.simulation.parts import SETTINGS
from broker.simulation.scenario import ClientLoad, Limit, Piece, Scenario

_SCENARIO: Final = Scenario(0, (), SETTINGS)


class Bounds(msgspec.Struct, frozen=True):
    """The most throttled requests, and the longest throttle in milliseconds, that a limit may cause."""

    requests: float = inf
    longest_ms: float = inf


NO_BOUNDS: Final = Bounds()


class Trial(msgspec.Struct, frozen=True):
    """What the limit would have done. `requests` and `throttled` are numbers of requests, `throttled_ms` and
    `longest_ms` the sum and the maximum of the throttles. `is_within`: the bounds were kept; otherwise the
    numbers are those at the first violation.
    """

    requests: int
    throttled: int
    throttled_ms: int
    longest_ms: int
    is_within: bool


def try_limit(load: ClientLoad, limit: float, bounds: Bounds = NO_BOUNDS) -> Trial:
    """Simulate the load under `limit`: bytes per second, or for QuotaKind.REQUEST percent of a thread, where
    the load's `nbytes` are nanoseconds of handlers.

    Requests that wait at the end are sent afterwards.
    """
    kind = load.kind
    entity = Entity(user=load.user)
    quotas = quotas_of(msgspec.structs.replace(_SCENARIO, limits=(Limit(entity, {KEY_OF[kind]: limit}),)))
    connection = SimulatedConnection(
        quotas,
        kind,
        (load.user, load.client_id),
        (_always_busy(load),),
        partial(recorded_arrivals, load),
        latency_us=_SCENARIO.latency_us,
        obeys=True,
        batch_bytes=0,
        patience_us=None,
        handling_ns=0,
    )
    found = connection.throttles[kind]
    is_within = True
    while is_within and (at_us := connection.next_at()) is not None:
        connection.send(at_us)
        is_within = found.requests <= bounds.requests and found.longest_ms <= bounds.longest_ms
    # Throttled fetches are requests too: each is repeated after its throttle.
    repeated = found.requests if kind is QuotaKind.FETCH else 0
    return Trial(
        connection.sent_requests + repeated, found.requests, found.total_ms, found.longest_ms, is_within
    )


def _always_busy(load: ClientLoad) -> IdlePeriods:
    everything = ConnectionDemand((Piece(0, FOREVER, 1.0),), 2.0, 0.0)
    return IdlePeriods((everything,), 1.0, CLIENT_QUOTA_WINDOW)
