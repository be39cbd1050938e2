"""How many connections one user may have, and how fast they may come: max.connections.per.user and
max.connection.creation.rate.per.user. Ours: Kafka limits addresses, behind one of which many users may be.

Asked by the network room's `user_gate` when a connection has shown whose it is. A connection of nobody in
particular, on a listener without authentication, is not asked about. Counts and verdicts only; knows no
socket and no clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from broker.metrics.quota import INT_MAX
from broker.metrics.window import Window
from broker.quotas.connection_rates import AcceptRate
from broker.quotas.usage import IDLE_MS, MAX_SENSORS

PER_USER: Final = "max.connections.per.user"
USER_RATE: Final = "max.connection.creation.rate.per.user"


@dataclass(frozen=True, slots=True)
class TooManyOfUser:
    """The user has `bound` connections already. Nothing of this one is counted."""

    bound: int


@dataclass(frozen=True, slots=True)
class TooFastOfUser:
    """The user makes connections too fast: more than `bound` a second. Nothing of this one is counted."""

    throttle_ms: int
    bound: int


UserRefusal = TooManyOfUser | TooFastOfUser


@dataclass(frozen=True, slots=True)
class UserLimit:
    """One of the two limits, and the overrides by user. INT_MAX is no limit."""

    maximum: int = INT_MAX
    overrides: Mapping[str, int] = field(default_factory=dict)

    def of(self, user: str) -> int:
        return self.overrides.get(user, self.maximum)


class UserConnections:
    """`counts` are the open connections by user, whoever has a limit or not; `rates` the sensors of those
    whose rate has one. `window` is quota.window.*.
    """

    __slots__ = ("_max_sensors", "_window", "count", "counts", "rate", "rates")

    def __init__(self, window: Window, max_sensors: int = MAX_SENSORS) -> None:
        self.count = UserLimit()
        self.rate = UserLimit()
        self.counts: dict[str, int] = {}
        self.rates: dict[str, AcceptRate] = {}
        self._window = window
        self._max_sensors = max_sensors

    def set_limits(self, count: UserLimit, rate: UserLimit) -> None:
        """They hold for connections to come; what was counted stays so."""
        self.count, self.rate = count, rate
        for user, sensor in self.rates.items():
            sensor.bound = rate.of(user)

    def enter(self, user: str, now_ms: int) -> UserRefusal | None:
        """Counts one more connection of the user, or says why there may be none."""
        count = self.counts.get(user, 0)
        if count >= self.count.of(user):
            return TooManyOfUser(self.count.of(user))
        bound = self.rate.of(user)
        if bound != INT_MAX:
            sensor = self._sensor(user, bound, now_ms)
            wait_ms = sensor.record(now_ms)
            if wait_ms > 0:
                sensor.unrecord(now_ms)
                return TooFastOfUser(wait_ms, bound)
        self.counts[user] = count + 1
        return None

    def release(self, user: str) -> None:
        """A connection that had entered is closed. KeyError if the user has none."""
        count = self.counts[user]
        if count == 1:
            del self.counts[user]
        else:
            self.counts[user] = count - 1

    def expire(self, now_ms: int) -> int:
        """Forgets the rates of users that made no connection for an hour; how many."""
        return self._drop([user for user in self.rates if now_ms - self._last_use(user) > IDLE_MS])

    def _sensor(self, user: str, bound: int, now_ms: int) -> AcceptRate:
        sensor = self.rates.get(user)
        if sensor is None:
            if len(self.rates) >= self._max_sensors:
                self._drop(nsmallest(max(1, self._max_sensors // 8), self.rates, key=self._last_use))
            sensor = self.rates[user] = AcceptRate(self._window, bound, now_ms)
        return sensor

    def _last_use(self, user: str) -> int:
        return self.rates[user].last_record_ms

    def _drop(self, users: Iterable[str]) -> int:
        gone = list(users)
        for user in gone:
            del self.rates[user]
        return len(gone)
