"""The state of client limits that survives a restart: the usage in their windows, and the debts of clients.

`server.parts.quota_usage` saves it every second and when the server stops, and resumes it at the start.
Independent of files: a `SavedUsage` is one sensor of a client quota, or of the connection rate of an address,
a user, a listener or the broker. Its windows are saved while it owes nothing: until a debt is repaid, they
decide nothing.

The clocks of two runs have only the wall clock in common, so it measures what was repaid between. If it was
set back meanwhile, nothing was repaid, and no debt has grown; if it was set forward, debts are forgiven for
that time. Shadow counts, throttle times, the rates of replicas and of the whole broker start again, and so
does the usage that a callback has grouped.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.bandwidth import RateQuotaManager, RateSensor
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_rates import AcceptRate
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import ClientSensor

LEAST_WORTH_S: Final = 0.05
"""An entity that has used less than its limit allows in this time is not saved, so that the file has those
that matter. It forgives a twentieth of what a kill may.
"""


Samples = list[tuple[int, int, float]]
"""Windows: when each began and had its last event by the clock of the run, and the sum."""

LISTENER: Final = "listener"
BROKER: Final = "broker"
ADDRESS: Final = "ip"
USER: Final = "user"


class SavedUsage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The usage of one entity. `scope` is the kind of a client quota, and `user`, `client_id` and `node` are
    those of its sensor; or `scope` is a server and one of the constants above, and `user` is the name of the
    listener, address or user. `worth_s` is the usage in seconds of the limit `bound`. `spent`: see
    `ClientSensor.spent`.
    """

    scope: str
    user: str | None
    client_id: str | None
    node: int | None
    bound: float
    worth_s: float
    spent: float | None
    samples: Samples


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """All entries of one moment, by both clocks, and the samples and length of the windows of client quotas
    and mutations.
    """

    now_ms: int
    wall_ms: int
    window: tuple[int, int]
    mutation_window: tuple[int, int]
    entries: list[SavedUsage]


class UsageOfClients:
    """The limits whose usage survives. `connections` are those of each server, by its name."""

    def __init__(
        self,
        clients: ClientQuotas,
        connections: Mapping[str, ConnectionQuotas],
        window: Window,
        mutation_window: Window,
    ) -> None:
        self._clients = clients
        self._connections = connections
        self._window = (window.samples, window.window_ms)
        self._mutation_window = (mutation_window.samples, mutation_window.window_ms)
        self._seen: tuple[int, float] | None = None

    def collect(self, now_ms: int, wall_ms: int, *, always: bool = False) -> Steps[Saved | None]:
        """Return the usage as of `now_ms`; None, unless `always`, if nothing was recorded and no limit has
        changed since the last time: what was repaid since follows from the time.
        """
        entries: list[SavedUsage] = []
        newest_ms, bounds = 0, 0.0
        found = chain(self._of_sensors(now_ms), self._of_rates(now_ms))
        for entry, last_record_ms in found:
            yield
            if entry is not None:
                entries.append(entry)
                newest_ms = max(newest_ms, last_record_ms)
                bounds += entry.bound
        seen, self._seen = self._seen, (newest_ms, bounds)
        if seen == self._seen and not always:
            return None
        return Saved(now_ms, wall_ms, self._window, self._mutation_window, entries)

    def resume(self, saved: Saved, now_ms: int, wall_ms: int) -> int:
        """Continue with the usage of another run; return the number of entities. Rules and limits must be in
        force already: what has none now is dropped.
        """
        elapsed_ms = max(wall_ms - saved.wall_ms, 0)
        later_ms = now_ms - elapsed_ms - saved.now_ms
        resumed = 0
        for entry in saved.entries:
            window, before = self._window, saved.window
            if entry.scope == QuotaKind.CONTROLLER_MUTATION:
                window, before = self._mutation_window, saved.mutation_window
            # Sums over windows of another length are of no use.
            samples = entry.samples if window == before else []
            moved = [(begun_ms + later_ms, last_ms + later_ms, total) for begun_ms, last_ms, total in samples]
            spent = None if entry.spent is None else entry.spent - entry.bound * elapsed_ms / 1000.0
            resumed += self._resume(entry, moved, spent, now_ms)
        return resumed

    def _of_sensors(self, now_ms: int) -> Iterator[tuple[SavedUsage | None, int]]:
        if self._clients.callback is None:
            for kind, manager in self._clients.managers.items():
                for sensor in manager.known_sensors():
                    yield _entry_of_sensor(kind.value, sensor, now_ms), sensor.last_record_ms

    def _of_rates(self, now_ms: int) -> Iterator[tuple[SavedUsage | None, int]]:
        for server, quotas in self._connections.items():
            by_name = {
                BROKER: {"": quotas.rate},
                LISTENER: {name: listener.rate for name, listener in quotas.listeners.items()},
                ADDRESS: dict(quotas.ips.sensors),
                USER: dict(quotas.users.rates),
            }
            for scope, rates in by_name.items():
                for name, rate in rates.items():
                    yield _entry_of_rate(f"{server}/{scope}", name, rate, now_ms), rate.last_record_ms

    def _resume(self, entry: SavedUsage, samples: Samples, spent: float | None, now_ms: int) -> bool:
        if "/" in entry.scope:
            rate = self._rate_of(entry, now_ms)
            if rate is not None:
                rate.resume(samples, spent, now_ms)
            return rate is not None
        manager = next((each for kind, each in self._clients.managers.items() if kind == entry.scope), None)
        if isinstance(manager, RateQuotaManager) and entry.node is not None:
            manager = manager.part(entry.node)
        if manager is None or self._clients.callback is not None:
            return False
        sensor = manager.resume(entry.user, entry.client_id, now_ms)
        if sensor is None or sensor.bound <= 0:
            return False
        sensor.rate.resume(samples)
        if spent is not None and manager.keeps_spent:
            sensor.resume_spent(spent, now_ms)
        return True

    def _rate_of(self, entry: SavedUsage, now_ms: int) -> AcceptRate | None:
        """Return the sensor of a limit on new connections that is in force now."""
        server, _, scope = entry.scope.partition("/")
        quotas, name = self._connections.get(server), entry.user or ""
        if quotas is None:
            return None
        rate: AcceptRate | None = None
        if scope == BROKER:
            rate = quotas.rate
        elif scope == LISTENER and name in quotas.listeners:
            rate = quotas.listeners[name].rate
        elif scope == ADDRESS:
            rate = quotas.ips.sensor(name, now_ms)
        elif scope == USER:
            rate = quotas.users.sensor(name, now_ms)
        return None if rate is None or rate.bound == INT_MAX else rate


def _entry_of_sensor(scope: str, sensor: ClientSensor, now_ms: int) -> SavedUsage | None:
    bound = sensor.repaid if isinstance(sensor, RateSensor) else sensor.bound
    if bound <= 0 or bound == UNLIMITED:
        return None
    names = (sensor.user, sensor.client_id, sensor.node)
    return _entry_of(scope, names, bound, sensor.spent(now_ms), sensor.rate.live, now_ms)


def _entry_of_rate(scope: str, name: str, rate: AcceptRate, now_ms: int) -> SavedUsage | None:
    if rate.bound <= 0 or rate.bound == INT_MAX:
        return None
    return _entry_of(scope, (name, None, None), rate.bound, rate.spent(now_ms), rate.live, now_ms)


def _entry_of(
    scope: str,
    names: tuple[str | None, str | None, int | None],
    bound: float,
    spent: float | None,
    live: Callable[[int], Samples],
    now_ms: int,
) -> SavedUsage | None:
    """Return the entry of a sensor, or None if its clients have used next to nothing of their limit."""
    samples: Samples = []
    used = spent or 0.0
    if used <= 0:
        used = 0.0
        samples = live(now_ms)
        for sample in samples:
            used += sample[2]
    worth_s = used / bound
    return None if worth_s < LEAST_WORTH_S else SavedUsage(scope, *names, bound, worth_s, spent, samples)
