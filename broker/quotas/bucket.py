"""Byte rate quotas as token buckets: `quota.bandwidth.algorithm=token_bucket`. Kafka uses a token bucket for
controller mutations only (KIP-599).

Replaces the managers of `bandwidth` for produce and fetch. Their rate looks back ten seconds: it admits a
burst of ten seconds' worth and throttles for the whole excess at once. With a token bucket a client may
exceed its rate by `burst_ms` worth, and a client that spends more is throttled until its tokens are back at
zero. So no throttle is longer than the last request was worth, unless many clients share the bucket.
"""

from collections.abc import Collection
from functools import partial

from broker.common.slices import Steps
from broker.metrics.rate import TokenBucket, Window, java_divide, java_round, throttle_time_ms
from broker.quotas.bandwidth import RateQuotaManager, RateSensor
from broker.quotas.entity import Governing
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.table import UNLIMITED, RuleKey, ShadowTotal
from broker.quotas.throttled import Throttle, ThrottledChannel
from broker.quotas.usage import MAX_SENSORS


class BucketSensor(RateSensor):
    """A client's tokens, initially full. The rate is measured for display and decides nothing."""

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
        """Set the limit. Tokens spent remain spent, also while no rule applies. Tokens above the new burst
        are dropped at the next use. Until `now_ms` the bucket fills at the previous limit.
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
        """Return the missing tokens, negative if there are tokens, or None before the first limit."""
        return None if self.repaid == UNLIMITED else -self.bucket.measure(now_ms)

    def first_wait_ms(self, bound: float, now_ms: int) -> int:
        return self.debt_wait_ms(bound, now_ms)

    def spent(self, now_ms: int) -> float | None:
        return self.bucket.burst - self.bucket.measure(now_ms)

    def resume_spent(self, spent: float, now_ms: int) -> None:
        self.bucket.record(max(spent, 0.0), now_ms)

    def reduce_debt(self, share: float, now_ms: int) -> None:
        self.bucket.record(-share, now_ms)

    def set_debt(self, debt: float, now_ms: int) -> None:
        self.bucket.record(self.bucket.measure(now_ms) + debt, now_ms)


class BucketQuotaManager(RateQuotaManager):
    """`burst_ms` is the time whose worth a client may use at once.

    A produce request is always served and its client throttled afterwards. A throttled fetch is subtracted
    again, so it requires its tokens beforehand, or a full bucket if it is larger than the bucket.
    """

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

    def _without_rules(self) -> "BucketQuotaManager":
        return BucketQuotaManager(self.kind, self._window, self.longest_ms, burst_ms=self._burst_ms)

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> Throttle | None:
        """Record `value`. Return a throttle until the bucket is back at zero if it is below zero now."""
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
        """Return the time that repays the excess of `observed` over the span of a whole bucket."""
        return max(min(throttle_time_ms(observed, bound, self._burst_ms), self.longest_ms), 0)

    def _is_withdrawn(self, throttled: ThrottledChannel, bound: float) -> bool:
        return False

    def _rebind(self, rules: Collection[RuleKey] | None, now_ms: int | None) -> Steps[None]:
        yield from super()._rebind(rules, now_ms)
        if self.kind is QuotaKind.FETCH and now_ms is not None:
            # A fetch that waits for a full bucket waits less for a smaller one.
            for throttled in self.throttled.all():
                yield
                if throttled.sensor.bound == throttled.bound:
                    self._shorten(throttled, now_ms)

    def _shorten(self, throttled: ThrottledChannel, now_ms: int) -> None:
        sensor = throttled.sensor
        assert isinstance(sensor, BucketSensor)
        missing = -sensor.bucket.measure(now_ms)
        if self.kind is QuotaKind.FETCH:
            missing += sensor.bucket.burst
        self.throttled.cut(throttled, now_ms + max(missing, 0.0) / sensor.repaid * 1000)

    def _exhausted(self, sensor: BucketSensor, tokens: float, value: float, now_ms: int) -> Throttle | None:
        bucket, bound = sensor.bucket, sensor.bound
        is_fetch = self.kind is QuotaKind.FETCH
        missing = bucket.burst - (tokens + value) if is_fetch and value > bucket.burst else -tokens
        wait_ms = java_round(java_divide(missing, bound) * 1000.0)
        if wait_ms > self.longest_ms:
            wait_ms = self.longest_ms
            if not is_fetch:
                # The throttle time is capped, so the debt is, too.
                bucket.record(tokens + bound * wait_ms / 1000.0, now_ms)
        if wait_ms <= 0:
            return None
        # The rate for which Kafka's formula gives this wait, over the span of the bucket.
        observed = max(bound * (1.0 + wait_ms / self._burst_ms), sensor.rate.measure(now_ms))
        return self._throttle(sensor, wait_ms, observed, now_ms)

    def _begin_at_bound(self, sensor: RateSensor, now_ms: int) -> None:
        super()._begin_at_bound(sensor, now_ms)
        assert isinstance(sensor, BucketSensor)
        sensor.bucket.record(sensor.bucket.burst, now_ms)
