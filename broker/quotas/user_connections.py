"""Limits on the number and creation rate of a user's connections: max.connections.per.user and
max.connection.creation.rate.per.user. Kafka limits addresses only, and one address can serve many users.

Called by the network package's `user_gate` after authentication. Anonymous connections, on listeners without
authentication, are exempt. Counts and verdicts only; independent of sockets and clocks.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.connection_rates import AcceptRate, AcceptRates
from broker.quotas.usage import MAX_SENSORS

PER_USER: Final = "max.connections.per.user"
USER_RATE: Final = "max.connection.creation.rate.per.user"


class TooManyOfUser(msgspec.Struct, frozen=True):
    """The user already has `bound` connections. This one is not counted."""

    bound: float


class TooFastOfUser(msgspec.Struct, frozen=True):
    """The user exceeds `bound` connections per second. This one is not counted."""

    throttle_ms: int
    bound: float


UserRefusal = TooManyOfUser | TooFastOfUser


class UserLimit(msgspec.Struct, frozen=True):
    """One of the two limits, and its overrides by user. INT_MAX is no limit."""

    maximum: float = INT_MAX
    overrides: Mapping[str, float] = msgspec.field(default_factory=dict)

    def of(self, user: str) -> float:
        return self.overrides.get(user, self.maximum)


class UserConnections:
    """Open connections by user (`counts`), limited or not, and the sensors of users with a rate limit
    (`rates`). `window` is quota.window.*.
    """

    def __init__(
        self, window: Window, max_sensors: int = MAX_SENSORS, build: type[AcceptRate] = AcceptRate
    ) -> None:
        self.count = UserLimit()
        self.rate = UserLimit()
        self.counts: dict[str, int] = {}
        self.rates = AcceptRates(window, max_sensors, build)

    def set_limits(self, count: UserLimit, rate: UserLimit) -> None:
        """Set the limits for new connections. Existing counts are kept."""
        self.count, self.rate = count, rate

    def enter(self, user: str, now_ms: int) -> UserRefusal | None:
        """Count another connection of the user, or return why it is refused."""
        count = self.counts.get(user, 0)
        if count >= self.count.of(user):
            return TooManyOfUser(self.count.of(user))
        sensor = self.sensor(user, now_ms)
        if sensor is not None:
            wait_ms = sensor.record(now_ms)
            if wait_ms > 0:
                sensor.unrecord(now_ms)
                return TooFastOfUser(wait_ms, sensor.bound)
        self.counts[user] = count + 1
        return None

    def sensor(self, user: str, now_ms: int) -> AcceptRate | None:
        """Return the sensor of a user, created at first use, or None without a limit on the rate."""
        bound = self.rate.of(user)
        if bound == INT_MAX:
            return None
        sensor = self.rates.sensor(user, bound, now_ms)
        sensor.bound = bound
        return sensor

    def release(self, user: str) -> None:
        """Release a closed connection that had entered. Raises KeyError if the user has none."""
        count = self.counts[user]
        if count == 1:
            del self.counts[user]
        else:
            self.counts[user] = count - 1

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove the rates of users without a new connection for an hour and return their number."""
        return self.rates.expire(now_ms)
