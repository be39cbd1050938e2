"""The quota on bytes per second, for produce and for fetch. (Kafka: ClientQuotaManager)

Called by the handlers, which test `active` first. Records, and says how long to wait; holding the channel is
the network room's work. Recording and checking are one step, since nothing awaits between.
"""

from sys import float_info

from broker.metrics.quota import INT_MAX, throttle_time_ms
from broker.metrics.window import Window
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager
from broker.quotas.usage import MAX_SENSORS, ClientSensor
from broker.quotas.verdict import Throttle


class RateQuotaManager(QuotaManager[ClientSensor]):
    """A quota on a rate. `longest_ms` cuts every throttle (quota.max.throttle.ms; Kafka has no such limit for
    bytes).
    """

    __slots__ = ("longest_ms",)

    def __init__(
        self,
        kind: QuotaKind,
        window: Window = CLIENT_QUOTA_WINDOW,
        longest_ms: int | None = None,
        max_sensors: int = MAX_SENSORS,
    ) -> None:
        super().__init__(
            kind,
            window,
            lambda user, client_id, now_ms: ClientSensor(user, client_id, now_ms, window),
            max_sensors,
        )
        # A reply carries the wait as an int32. Kafka narrows a longer one, which can come out negative: no
        # wait at all.
        self.longest_ms = INT_MAX if longest_ms is None else longest_ms

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> Throttle | None:
        """Records `value`; a throttle if the client is over its bound now, whose wait brings it down to it.

        Nothing is recorded while no rule exists at all.
        """
        if not self.active:
            return None
        sensor = self._usage.sensor(user, client_id, now_ms)
        sensor.last_record_ms = now_ms
        rate = sensor.rate
        rate.record(value, now_ms)
        if sensor.rule is None:
            return None
        observed = rate.measure(now_ms)
        if observed <= sensor.bound:
            return None
        return self._violated(sensor, observed, now_ms)

    def record_unchecked(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Records, and leaves it to the next `record` to see a broken bound. (recordNoThrottle)"""
        if self.active:
            sensor = self._usage.sensor(user, client_id, now_ms)
            sensor.last_record_ms = now_ms
            sensor.rate.record(value, now_ms)

    def unrecord(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Takes back what was recorded, for a fetch that is answered empty because it broke a quota."""
        self.record_unchecked(user, client_id, -value, now_ms)

    def max_value_in_window(self, user: str, client_id: str | None, now_ms: int) -> float:
        """The most that can be recorded at once without a certain throttle; without a limit the largest
        float.

        (getMaxValueInQuotaWindow: the limit over all windows but the present one.)
        """
        if not self.active:
            return float_info.max
        sensor = self._usage.sensor(user, client_id, now_ms)
        if sensor.rule is None:
            return float_info.max
        return sensor.bound * (self._window.samples - 1) * (self._window.window_ms / 1000)

    def _violated(self, sensor: ClientSensor, observed: float, now_ms: int) -> Throttle | None:
        bound, rule = sensor.bound, sensor.rule
        assert rule is not None
        needed_ms = throttle_time_ms(observed, bound, sensor.rate.window_size_ms(now_ms))
        if needed_ms <= 0:
            return None
        return Throttle(self.kind, min(needed_ms, self.longest_ms), rule, observed, bound, sensor)
