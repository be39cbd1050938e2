"""A manager with a clock, for scripts of records and limits, and a connection to throttle."""

from dataclasses import dataclass

from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.entity import Name
from tests.support.clock import ManualClock

SAMPLES = 11
"""The factor of Kafka's tests, by which a value equals its rate."""


@dataclass(eq=False)
class Connection:
    """A connection with the attributes that `ThrottledChannels` reads."""

    id: str = "127.0.0.1:9092-127.0.0.1:50000-0-0"
    client_id: str | None = "client1"
    principal: str = "ANONYMOUS"
    address: str = "127.0.0.1"
    listener: str = "PLAINTEXT"
    throttles: int = 0


class Scene:
    """Drives one rate manager on a manual clock."""

    def __init__(self, manager: RateQuotaManager) -> None:
        self.manager = manager
        self.clock = ManualClock()

    def limit(self, user: Name, client_id: Name, bound: float | None) -> None:
        self.manager.set_bound(user, client_id, bound, self.clock.ms())

    def record(self, user: str, client_id: str | None, value: float) -> int:
        """Record `value` and return the throttle time in milliseconds, 0 for none."""
        throttle = self.manager.record(user, client_id, value, self.clock.ms())
        return 0 if throttle is None else throttle.throttle_ms

    def check(self, user: str, client_id: str, bound: float, value: float, *, throttled: bool) -> None:
        """Check bound, capacity of the windows, and whether `value` is throttled. (Kafka: checkQuota)"""
        assert self.manager.bound(user, client_id) == bound
        fits = self.manager.max_value_in_window(user, client_id, self.clock.ms())
        assert fits == bound * (SAMPLES - 1)
        assert (self.record(user, client_id, value * SAMPLES) > 0) is throttled
