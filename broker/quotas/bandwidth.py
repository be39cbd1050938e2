"""The quota on bytes per second, for produce and for fetch. (Kafka: ClientQuotaManager)

Called by the handlers, which test `active` first. Records, and says how long to wait; holding the channel is
the network room's work. Recording and checking are one step, since nothing awaits between.
"""

from collections.abc import Callable, Iterable
from functools import partial
from sys import float_info

from broker.metrics.quota import INT_MAX, throttle_time_ms
from broker.metrics.window import Window
from broker.quotas.entity import Governing
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager
from broker.quotas.pacing import Pace
from broker.quotas.shadow import ShadowTotal
from broker.quotas.usage import MAX_SENSORS, ClientSensor
from broker.quotas.verdict import Throttle


class RateSensor(ClientSensor):
    """A sensor whose clients may be paced; see `pacing`. `fits` is the most that can be recorded at once
    without a certain throttle.
    """

    __slots__ = ("fits", "pace")

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.pace: Pace | None = None
        self.fits = float_info.max

    def set_bound(self, bound: float, rule: Governing | None, shadow: ShadowTotal | None = None) -> None:
        """What is owed under another limit is forgotten; what was recorded is not."""
        if bound != self.bound:
            self.pace = None
        super().set_bound(bound, rule, shadow)
        window = self.rate.window
        is_free = rule is None or shadow is not None
        self.fits = float_info.max if is_free else bound * (window.samples - 1) * (window.window_ms / 1000)


class RateQuotaManager(QuotaManager[RateSensor]):
    """A quota on a rate.

    `longest_ms` cuts every throttle (quota.max.throttle.ms; Kafka has no such limit for bytes). `paced` keeps
    a client that has broken its quota at the bound; without it the verdicts are Kafka's throughout. `build`
    makes sensors of a kind of their own.
    """

    __slots__ = ("_paced", "longest_ms")

    def __init__(
        self,
        kind: QuotaKind,
        window: Window = CLIENT_QUOTA_WINDOW,
        longest_ms: int | None = None,
        *,
        paced: bool = False,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
        build: Callable[[str | None, str | None, int], RateSensor] | None = None,
    ) -> None:
        super().__init__(kind, window, build or partial(RateSensor, window=window), max_sensors, callback)
        self._paced = paced
        # A reply carries the wait as an int32; Kafka's narrowing of a longer one can make it negative.
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
        if sensor.pace is not None and not sensor.pace.is_over(now_ms):
            return self._charge(sensor, sensor.pace, value, now_ms)
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
            if sensor.pace is not None:
                sensor.pace.refund(-value)

    def unrecord(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Takes back what was recorded, for a fetch that is answered empty because it broke a quota."""
        self.record_unchecked(user, client_id, -value, now_ms)

    def adopt(self, running: Iterable[tuple[str, str | None, float]], now_ms: int) -> None:
        """Begins to count clients that were there before their rule: user, client id and units per second.

        Kafka supposes that a client which it sees for the first time was quiet before, and lets it use ten
        seconds' worth at once. Who is known to be over its bound already gets no such present: it begins as
        one that has used exactly its bound, so the next record is held. A sensor that exists knows better.
        """
        found: dict[RateSensor, float] = {}
        clients = [each for each in running if self.active and self._usage.find(each[0], each[1]) is None]
        for user, client_id, per_second in clients:
            sensor = self._usage.sensor(user, client_id, now_ms)
            found[sensor] = found.get(sensor, 0.0) + per_second
        for sensor, per_second in found.items():
            if sensor.rule is not None and per_second > sensor.bound:
                self._begin_at_bound(sensor, now_ms)

    def max_value_in_window(self, user: str, client_id: str | None, now_ms: int) -> float:
        """The most that can be recorded at once without a certain throttle; the largest float without a
        limit.

        (getMaxValueInQuotaWindow: the limit over all windows but the present one.)
        """
        if not self.active:
            return float_info.max
        return self._usage.sensor(user, client_id, now_ms).fits

    def _begin_at_bound(self, sensor: RateSensor, now_ms: int) -> None:
        window_ms = self._window.window_ms
        for windows in range(self._window.samples - 1, 0, -1):
            sensor.rate.record(sensor.bound * window_ms / 1000, now_ms - windows * window_ms)

    def wait_at(self, observed: float, bound: float) -> int:
        return min(super().wait_at(observed, bound), self.longest_ms)

    def _violated(self, sensor: RateSensor, observed: float, now_ms: int) -> Throttle | None:
        bound, rate = sensor.bound, sensor.rate
        window_ms = rate.window_size_ms(now_ms)
        wait_ms = min(throttle_time_ms(observed, bound, window_ms), self.longest_ms)
        if wait_ms <= 0:
            return None
        if self._paced:
            # Kafka's rate supposes quiet windows before the first one; for them nothing can be owed.
            seen_ms = now_ms - rate.oldest_start(now_ms)
            owed = (observed * window_ms - bound * seen_ms) / 1000.0
            sensor.pace = Pace(owed, wait_ms, self._window.samples * self._window.window_ms, now_ms)
        return self._throttle(sensor, wait_ms, observed, now_ms)

    def _charge(self, sensor: RateSensor, pace: Pace, value: float, now_ms: int) -> Throttle | None:
        wait_ms = pace.charge(value, sensor.bound, self.longest_ms, now_ms)
        if not wait_ms:
            return None
        # The rate for which Kafka's formula gives this wait: use, with the debt in it.
        owing = sensor.bound * (1.0 + wait_ms / sensor.rate.window_size_ms(now_ms))
        return self._throttle(sensor, wait_ms, max(owing, sensor.rate.measure(now_ms)), now_ms)

    def _throttle(self, sensor: RateSensor, wait_ms: int, observed: float, now_ms: int) -> Throttle | None:
        """The verdict; in shadow mode it is counted and nobody is told."""
        if sensor.shadow is not None:
            sensor.shadow.note(wait_ms, now_ms)
            return None
        assert sensor.rule is not None
        return Throttle(self.kind, wait_ms, sensor.rule, observed, sensor.bound, sensor)
