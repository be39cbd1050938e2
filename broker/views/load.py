"""The load of the running server between two readings of one reader: throughput, connections, idle shares and
request memory. Part of `console.Views`; read by broker.monitoring.alerts.

A reader has windows of its own, so that others, such as the console, do not shorten them.
"""

import math
from typing import NamedTuple

from broker.config.listeners import Server
from broker.network.server_metrics import WINDOW_NS, IdleShares, totals_of
from broker.views.parts import ServerParts


class Load(NamedTuple):
    """Rates are bytes a second, idle shares from 0 to 1, both since the reading before; NaN at the first.
    `memory_used` is the used part of queued.max.request.bytes, NaN without that limit.
    """

    bytes_in: float
    bytes_out: float
    connections: int
    network_idle: float
    handler_idle: float
    thread_idle: float
    memory_used: float


class LoadMeter:
    """One reader. A reading within a second of the one before is the same: short rates say little."""

    def __init__(self, parts: ServerParts) -> None:
        self._server = parts.server
        self._loop = parts.loop
        self._clock = parts.clock
        self.forget()

    def forget(self) -> None:
        """Begin anew: the next reading is the first."""
        self._idle = IdleShares(self._server, self._loop)
        self._before: tuple[int, int, int] | None = None
        self._last: Load | None = None

    def read(self) -> Load:
        server, now = self._server, self._clock.ns()
        if self._last is not None and self._before is not None and now - self._before[0] < WINDOW_NS:
            return self._last
        processors = list(server.processors())
        selectors = [totals_of(each, now) for each in processors]
        ended = server.ended_processors
        bytes_in = int(ended.bytes_in + sum(each.bytes_in for each in selectors))
        bytes_out = int(ended.bytes_out + sum(each.bytes_out for each in selectors))
        before, self._before = self._before, (now, bytes_in, bytes_out)
        per_second = math.nan if before is None else 1e9 / max(now - before[0], 1)
        _, then_in, then_out = before or self._before
        idle = self._idle.update(now)
        resources = server.resources.get(Server.BROKER)
        memory = None if resources is None or resources.memory is None else resources.memory.memory
        known = math.nan if before is None else 1.0
        self._last = Load(
            (bytes_in - then_in) * per_second,
            (bytes_out - then_out) * per_second,
            sum(len(each.selector.channels) for each in processors),
            idle.network * known,
            idle.handlers * known,
            idle.thread * known,
            math.nan if memory is None else memory.used / memory.size,
        )
        return self._last
