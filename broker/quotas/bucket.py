"""The quota on bytes per second as a token bucket: `quota.bandwidth.algorithm=token_bucket`. Kafka has one
for controller mutations only (KIP-599).

Takes the place of `bandwidth`'s managers for produce and fetch, whose rule looks back over ten seconds: there
a burst of ten seconds' worth is let through, and what is too much is waited for at once. Here a client may
send what `burst_ms` are worth beyond its rate, and who spends more waits until the tokens are back at zero.
So no wait is longer than the last request was worth, unless many clients share the bucket.
"""

from collections.abc import Collection
from functools import partial

from broker.metrics.quota import java_divide, java_round, throttle_time_ms
from broker.metrics.token_bucket import TokenBucket
from broker.metrics.window import Window
from broker.quotas.bandwidth import RateQuotaManager, RateSensor
from broker.quotas.entity import Governing
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.shadow import ShadowTotal
from broker.quotas.table import UNLIMITED, Rule
from broker.quotas.throttled import Held
from broker.quotas.usage import FEW, MAX_SENSORS
from broker.quotas.verdict import Throttle
from broker.steps import Steps


class BucketSensor(RateSensor):
    """A client's tokens, full at first. Its rate is measured for those who look, and decides nothing."""

    __slots__ = ("bucket",)

    def __init__(
        self, user: str | None, client_id: str | None, now_ms: int, window: Window, burst: Window
    ) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.bucket = TokenBucket.full(burst, UNLIMITED, now_ms)

    def set_bound(
        self,
        bound: float,
        rule: Governing | None,
        shadow: ShadowTotal | None = None,
        now_ms: int | None = None,
    ) -> None:
        """What was spent stays spent, also over a time without a rule, in which nothing is; what is more than
        the new burst goes when next used. Until `now_ms` the bucket was filled at the limit before.
        """
        super().set_bound(bound, rule, shadow, now_ms)
        if rule is not None:
            if bound != self.bucket.bound:
                if now_ms is not None:
                    self.bucket.measure(now_ms)
                self.bucket.bound = bound
            if shadow is None:
                self.fits = self.bucket.burst

    def debt(self, now_ms: int) -> float | None:
        """What is missing in the bucket, negative where there are tokens; None before the first limit."""
        return None if self.repaid == UNLIMITED else -self.bucket.measure(now_ms)

    def reduce_debt(self, share: float, now_ms: int) -> None:
        self.bucket.record(-share, now_ms)

    def set_debt(self, debt: float, now_ms: int) -> None:
        self.bucket.record(self.bucket.measure(now_ms) + debt, now_ms)


class BucketQuotaManager(RateQuotaManager):
    """`burst_ms`: how long the limit may be used up beforehand. A produce request is served in any case, and
    its client waits then. A fetch that is answered with a wait is taken back, so it is judged by whether its
    tokens are there; one larger than the bucket by whether that is full.
    """

    __slots__ = ("_burst_ms",)

    def __init__(
        self,
        kind: QuotaKind,
        window: Window = CLIENT_QUOTA_WINDOW,
        longest_ms: int | None = None,
        *,
        burst_ms: int,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
    ) -> None:
        build = partial(BucketSensor, window=window, burst=Window(1, burst_ms))
        super().__init__(kind, window, longest_ms, max_sensors=max_sensors, callback=callback, build=build)
        self._burst_ms = burst_ms
        self._keeps_debts = True

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> Throttle | None:
        """Records `value`; a throttle if the bucket is below zero then, whose wait brings it back."""
        if not self.active:
            return None
        sensor = self._usage.sensor(user, client_id, now_ms)
        assert isinstance(sensor, BucketSensor)
        sensor.last_record_ms = now_ms
        sensor.rate.record(value, now_ms)
        if sensor.rule is None:
            return None
        bucket = sensor.bucket
        bucket.record(value, now_ms)
        tokens = bucket.measure(now_ms)
        return None if tokens >= 0 else self._exhausted(sensor, tokens, value, now_ms)

    def record_unchecked(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        super().record_unchecked(user, client_id, value, now_ms)
        if self.active:
            sensor = self._usage.sensor(user, client_id, now_ms)
            assert isinstance(sensor, BucketSensor)
            if sensor.rule is not None:
                sensor.bucket.record(value, now_ms)

    def wait_at(self, observed: float, bound: float) -> int:
        """What is over the rate for as long as a whole bucket stands for."""
        return max(min(throttle_time_ms(observed, bound, self._burst_ms), self.longest_ms), 0)

    def _is_withdrawn(self, held: Held, bound: float) -> bool:
        return False

    def _rebind(self, rules: Collection[Rule] | None, now_ms: int | None) -> Steps[None]:
        yield from super()._rebind(rules, now_ms)
        if self.kind is QuotaKind.FETCH and now_ms is not None:
            # One that waits for a full bucket has less to wait for where the bucket has become smaller.
            for number, held in enumerate(self.throttled.held()):
                if number % FEW == FEW - 1:
                    yield
                if held.sensor.bound == held.bound:
                    self._shorten(held, now_ms)

    def _shorten(self, held: Held, now_ms: int) -> None:
        sensor = held.sensor
        assert isinstance(sensor, BucketSensor)
        missing = -sensor.bucket.measure(now_ms)
        if self.kind is QuotaKind.FETCH:
            missing += sensor.bucket.burst
        self.throttled.cut(held, now_ms + max(missing, 0.0) / sensor.repaid * 1000)

    def _exhausted(self, sensor: BucketSensor, tokens: float, value: float, now_ms: int) -> Throttle | None:
        bucket, bound = sensor.bucket, sensor.bound
        is_fetch = self.kind is QuotaKind.FETCH
        missing = bucket.burst - (tokens + value) if is_fetch and value > bucket.burst else -tokens
        wait_ms = java_round(java_divide(missing, bound) * 1000.0)
        if wait_ms > self.longest_ms:
            wait_ms = self.longest_ms
            if not is_fetch:
                # More is never asked for, so more is not owed.
                bucket.record(tokens + bound * wait_ms / 1000.0, now_ms)
        if wait_ms <= 0:
            return None
        # The rate for which Kafka's formula gives this wait, measured over the time that the bucket spans.
        observed = max(bound * (1.0 + wait_ms / self._burst_ms), sensor.rate.measure(now_ms))
        return self._throttle(sensor, wait_ms, observed, now_ms)

    def _begin_at_bound(self, sensor: RateSensor, now_ms: int) -> None:
        super()._begin_at_bound(sensor, now_ms)
        assert isinstance(sensor, BucketSensor)
        sensor.bucket.record(sensor.bucket.burst, now_ms)
