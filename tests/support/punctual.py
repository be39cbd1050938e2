"""Finds a reaper that would sleep past a deadline: one that was added, and not reported to it."""

import math
from collections.abc import Callable, Sequence

import trio

from broker.coordinator.share.share_partitions import SharePartitions
from broker.network.reaper import Reaper
from broker.purgatory.purgatory import Purgatory
from broker.server.server import Server


def reapers_of(server: Server) -> Sequence[Reaper]:
    """Return the reapers of delayed requests, throttles, clients' metrics and request memory."""
    network = server.socket_server
    found = [*server.reapers, *network.throttling._reapers, network.handlers.flush_waits.reaper]
    found.append(server.telemetry._reaper)
    for each in network.resources.values():
        found.append(each.users.reaper)
        if each.memory is not None:
            found.append(each.memory.reaper)
    return found


class Punctuality(trio.abc.Instrument):
    """Compares, before the event loop sleeps, how long the reapers sleep with what is due for them."""

    def __init__(self, server: Server) -> None:
        self._reapers = reapers_of(server)
        self.late: dict[str, tuple[float, float]] = {}
        """By name: until when a reaper slept, and what was due earlier."""

    def before_io_wait(self, timeout: float) -> None:
        if timeout <= 0:  # tasks are ready to run
            return
        for reaper in self._reapers:
            due = _due(reaper._next_deadline)
            if due < reaper._sleeps_until:
                self.late.setdefault(reaper.name, (reaper._sleeps_until, due))


def _due(next_deadline: Callable[[], int | None]) -> float:
    """Return the time by which the reaper must wake. A purgatory may ask for an earlier time at which it only
    moves operations to a finer level of its timing wheel, and so may the locks of share groups.
    """
    owner = getattr(next_deadline, "__self__", None)
    timer = None
    if isinstance(owner, Purgatory):
        timer = owner._timer
    elif isinstance(owner, SharePartitions) and not owner._leaving:
        timer = owner._locks
    if timer is not None:
        buckets = timer._wheel._queue._heap
        entries = [*timer._due, *(entry for bucket in buckets for entry in bucket.entries)]
        return min((each.expiration_ms for each in entries if not each.cancelled), default=math.inf)
    deadline = next_deadline()
    return math.inf if deadline is None else deadline
