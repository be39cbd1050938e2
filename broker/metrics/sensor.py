"""Several stats under one name that are recorded together, some with a quota. (Kafka: Sensor, Metrics)

For what is not on the hottest path: connection rates, telemetry, whatever a plug-in measures. The byte-rate
managers hold their one rate directly. Knows no clock and no thread: check and record are one step because
nothing awaits between them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from broker.metrics.quota import Quota, Violation
from broker.metrics.token_bucket import TokenBucket

NEVER: Final = None
"""The expiry of a sensor that stays however long it is idle."""


class Stat(Protocol):
    """What a sensor holds: Rate, TokenBucket, Avg, Max and the like."""

    def record(self, value: float, now_ms: int) -> None: ...

    def measure(self, now_ms: int) -> float: ...


class MetricName(NamedTuple):
    """What a figure is called; tags as sorted (name, value) pairs."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Metric:
    """One figure of a sensor. Replacing `quota` changes the bound and leaves the usage alone."""

    name: MetricName
    stat: Stat
    quota: Quota | None = None

    def violation(self, now_ms: int) -> Violation | None:
        """What is wrong with the quota now: tokens below zero, or any other value outside its bound."""
        quota = self.quota
        if quota is None:
            return None
        value = self.stat.measure(now_ms)
        if isinstance(self.stat, TokenBucket):
            return Violation(value, quota.bound) if value < 0 else None
        return None if quota.acceptable(value) else Violation(value, quota.bound)


class Sensor:
    """Records one value into all its metrics."""

    __slots__ = ("_expiry_ms", "last_record_ms", "metrics", "name")

    def __init__(self, name: str, now_ms: int, expiry_ms: int | None = NEVER) -> None:
        self.name = name
        self.metrics: list[Metric] = []
        self.last_record_ms = now_ms
        self._expiry_ms = expiry_ms

    def record(self, value: float, now_ms: int) -> None:
        """Records without looking at quotas."""
        self.last_record_ms = now_ms
        for metric in self.metrics:
            metric.stat.record(value, now_ms)

    def check(self, now_ms: int) -> Violation | None:
        """The first broken quota as things are, recording nothing."""
        for metric in self.metrics:
            violation = metric.violation(now_ms)
            if violation is not None:
                return violation
        return None

    def record_strictly(self, value: float, now_ms: int) -> Violation | None:
        """Records only if no quota is broken beforehand; the violation that stood in the way otherwise."""
        violation = self.check(now_ms)
        if violation is None:
            self.record(value, now_ms)
        return violation

    def has_expired(self, now_ms: int) -> bool:
        return self._expiry_ms is not None and now_ms - self.last_record_ms > self._expiry_ms


class Sensors:
    """All sensors of a broker by name, and the rule that a metric belongs to one of them."""

    def __init__(self) -> None:
        self._sensors: dict[str, Sensor] = {}
        self._owners: dict[MetricName, Sensor] = {}

    def sensor(self, name: str, now_ms: int, expiry_ms: int | None = NEVER) -> Sensor:
        """The sensor of that name, made on first use."""
        sensor = self._sensors.get(name)
        if sensor is None:
            sensor = self._sensors[name] = Sensor(name, now_ms, expiry_ms)
        return sensor

    def add(
        self, sensor: Sensor, name: MetricName, stat: Stat, now_ms: int, quota: Quota | None = None
    ) -> bool:
        """Gives the sensor one more metric. False, and nothing done, if the sensor has expired.

        True also if it has that metric already. A metric of another sensor is refused with ValueError.
        """
        if sensor.has_expired(now_ms):
            return False
        owner = self._owners.get(name)
        if owner is sensor:
            return True
        if owner is not None:
            raise ValueError(f"the metric {name} belongs to the sensor {owner.name}")
        self._owners[name] = sensor
        sensor.metrics.append(Metric(name, stat, quota))
        return True

    def remove(self, name: str) -> None:
        """Forgets a sensor and its metrics."""
        sensor = self._sensors.pop(name, None)
        if sensor is not None:
            for metric in sensor.metrics:
                del self._owners[metric.name]

    def expire(self, now_ms: int) -> list[str]:
        """Forgets the sensors that were idle for longer than their expiry; their names."""
        gone = [name for name, sensor in self._sensors.items() if sensor.has_expired(now_ms)]
        for name in gone:
            self.remove(name)
        return gone

    def __iter__(self) -> Iterator[Sensor]:
        return iter(self._sensors.values())
