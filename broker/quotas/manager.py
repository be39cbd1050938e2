"""The quota on bytes per second, for produce and for fetch. (Kafka: ClientQuotaManager)

Called by the handlers: they ask `active` first, which is False while no rule exists, and then pay nothing
more. Records, and says how long to wait; holding the channel is the network room's work. Check and record are
one step, since nothing awaits between.
"""

from collections.abc import Iterator
from sys import float_info

from broker.metrics.quota import INT_MAX, throttle_time_ms
from broker.metrics.rate import Rate
from broker.metrics.window import Window
from broker.quotas.entity import Name
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED, QuotaTable, Resolution
from broker.quotas.throttled import Throttleable, ThrottledChannels
from broker.quotas.usage import MAX_SENSORS, ClientSensor, Usage
from broker.quotas.verdict import Throttle

CLIENT_QUOTA_WINDOW = Window(samples=11, window_ms=1_000)
"""quota.window.num and quota.window.size.seconds: ten whole windows and the present one."""


class RateSensor(ClientSensor):
    """A client's usage as a rate."""

    __slots__ = ("rate",)

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms)
        self.rate = Rate(window)


class ClientQuotaManager:
    """One kind of quota. `longest_ms` cuts every throttle (quota.max.throttle.ms; Kafka has no such limit for
    bytes).
    """

    __slots__ = ("_table", "_usage", "_window", "active", "kind", "longest_ms", "throttled")

    def __init__(
        self,
        kind: QuotaKind,
        window: Window = CLIENT_QUOTA_WINDOW,
        longest_ms: int | None = None,
        max_sensors: int = MAX_SENSORS,
    ) -> None:
        self.kind = kind
        self.active = False
        self.throttled = ThrottledChannels()
        self._window = window
        # What a reply can carry is an int32; Kafka's narrowing of a longer wait would make it negative, so no
        # wait at all.
        self.longest_ms = INT_MAX if longest_ms is None else longest_ms
        self._table = QuotaTable()
        self._usage: Usage[RateSensor] = Usage(
            self._table,
            lambda user, client_id, now_ms: RateSensor(user, client_id, now_ms, window),
            max_sensors,
        )

    def set_bound(self, user: Name, client_id: Name, bound: float | None) -> None:
        """Sets the limit of a rule, or removes the rule (None). Counts from the next record on; usage is
        kept.
        """
        self._table.set(user, client_id, bound)
        self._usage.rules_changed()
        self.active = bool(self._table.enabled)

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

    def throttle(self, channel: Throttleable, token: object, throttle: Throttle, now_ms: int) -> None:
        """Holds `channel` for a throttle of this manager, and counts it. To be called before the reply is
        sent (KIP-219).
        """
        throttle.sensor.note_throttle(throttle.throttle_ms, now_ms)
        self.throttled.add(channel, token, throttle, now_ms)

    def bound(self, user: str, client_id: str | None) -> float:
        """The limit of this client, UNLIMITED without one."""
        rule = self._table.match(user, client_id or "")
        return UNLIMITED if rule is None else self._table[rule]

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

    def resolve(self, user: str, client_id: str | None) -> Resolution:
        """Which of the eight levels applies, and all that were tried."""
        return self._table.resolve(user, client_id or "")

    def observed(self, user: str, client_id: str | None, now_ms: int) -> float | None:
        """What this client uses now; None if nothing was recorded for it."""
        sensor = self._usage.find(user, client_id)
        return None if sensor is None else sensor.rate.measure(now_ms)

    def sensors(self) -> Iterator[RateSensor]:
        """Every sensor there is, with its present limit."""
        return iter(self._usage)

    def expire(self, now_ms: int) -> int:
        """Forgets sensors that were idle for more than an hour; how many."""
        return self._usage.expire(now_ms)

    def _violated(self, sensor: RateSensor, observed: float, now_ms: int) -> Throttle | None:
        bound, rule = sensor.bound, sensor.rule
        assert rule is not None
        needed_ms = throttle_time_ms(observed, bound, sensor.rate.window_size_ms(now_ms))
        if needed_ms <= 0:
            return None
        return Throttle(self.kind, min(needed_ms, self.longest_ms), rule, observed, bound, sensor)
