"""The quota on partitions created and deleted per second, a token bucket. (Kafka:
ControllerMutationQuotaManager, KIP-599)

Called by the handlers of CreateTopics, DeleteTopics and CreatePartitions: one `MutationQuota` for each
request, checked before any metadata record is written. Newer versions are strict (refused while the bucket is
empty), older ones permissive (always served, then throttled).
"""

from dataclasses import replace
from functools import partial

from broker.common.errors import ApiError, ErrorCode
from broker.metrics.rate import INT_MAX, TokenBucket, Window, java_divide, java_round
from broker.quotas.entity import Governing
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW, QuotaManager
from broker.quotas.table import UNLIMITED, ShadowTotal
from broker.quotas.throttled import Throttle
from broker.quotas.usage import MAX_SENSORS, ClientSensor


class MutationSensor(ClientSensor):
    """A client's tokens and mutation rate. The bucket starts full."""

    __slots__ = ("bucket",)

    def __init__(self, user: str | None, client_id: str | None, now_ms: int, window: Window) -> None:
        super().__init__(user, client_id, now_ms, window)
        self.bucket = TokenBucket.full(window, UNLIMITED, now_ms)

    def set_bound(
        self,
        bound: float,
        rule: Governing | None,
        shadow: ShadowTotal | None = None,
        now_ms: int | None = None,
    ) -> None:
        """Set the limit. Until `now_ms` the bucket fills at the previous limit."""
        super().set_bound(bound, rule, shadow, now_ms)
        bound = min(bound, UNLIMITED)  # a higher one would leave the first tokens short of a full bucket
        if bound != self.bucket.bound:
            if now_ms is not None:
                self.bucket.measure(now_ms)
            self.bucket.bound = bound

    def first_wait_ms(self, bound: float, now_ms: int) -> int:
        return max(throttle_time_for_tokens(self.bucket.measure(now_ms), bound), 0)

    def spent(self, now_ms: int) -> float | None:
        return self.bucket.burst - self.bucket.measure(now_ms)

    def resume_spent(self, spent: float, now_ms: int) -> None:
        self.bucket.record(max(spent, 0.0), now_ms)

    def record(self, mutations: float, now_ms: int) -> None:
        self.last_record_ms = now_ms
        self.bucket.record(mutations, now_ms)
        self.rate.record(mutations, now_ms)


def throttle_time_for_tokens(tokens: float, bound: float) -> int:
    """Return the milliseconds until `tokens` are back at zero, if `bound` are added per second.
    (throttleTimeMs)
    """
    return java_round(java_divide(-tokens, bound) * 1000.0)


class MutationQuota:
    """The quota of one request. Without a `sensor` it is unlimited."""

    __slots__ = ("_at_ms", "_sensor", "_strict", "_throttle")

    def __init__(self, sensor: MutationSensor | None, *, strict: bool) -> None:
        self._sensor = sensor
        self._strict = strict
        self._throttle: Throttle | None = None
        self._at_ms = 0

    @property
    def is_limited(self) -> bool:
        """Whether a rule applies to the client."""
        return self._sensor is not None and self._sensor.rule is not None

    @property
    def is_exceeded(self) -> bool:
        """Whether a mutation of this request was refused."""
        return self._strict and self._throttle is not None

    def record(self, mutations: float, now_ms: int) -> bool:
        """Charge for `mutations` partitions before they are created or deleted. Return whether the bucket was
        charged.

        Strict: raises ApiError THROTTLING_QUOTA_EXCEEDED and charges nothing while the bucket is below zero.
        Permissive: charges in any case, and stores the throttle if the bucket is below zero then. Shadow mode
        refuses nothing, and charges nothing that strict mode would refuse, so that the next verdict is again
        the one that enforcement would give.
        """
        sensor = self._sensor
        if sensor is None:
            return False
        if not self._strict:
            sensor.record(mutations, now_ms)
            self._is_exhausted(sensor, now_ms)
        elif not self._is_exhausted(sensor, now_ms):
            sensor.record(mutations, now_ms)
        elif sensor.shadow is not None:
            sensor.last_record_ms = now_ms
            sensor.rate.record(mutations, now_ms)
            return False
        else:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        return True

    def correct(self, mutations: float, now_ms: int) -> None:
        """Charge `mutations` more than `record` did, or fewer if negative, now that their number is known.
        Refuses nothing; a permissive request that is over its quota or not any more is throttled accordingly.
        """
        sensor = self._sensor
        if sensor is None:
            return
        sensor.record(mutations, now_ms)
        if not self._strict and sensor.shadow is None:
            self._throttle = None
            self._is_exhausted(sensor, now_ms)

    def throttle(self, now_ms: int) -> Throttle | None:
        """Return the throttle for the response, less the time that processing the request took."""
        throttle = self._throttle
        left_ms = 0 if throttle is None else throttle.throttle_ms - (now_ms - self._at_ms)
        return None if throttle is None or left_ms <= 0 else replace(throttle, throttle_ms=left_ms)

    def _is_exhausted(self, sensor: MutationSensor, now_ms: int) -> bool:
        tokens = sensor.bucket.measure(now_ms)
        if tokens >= 0 or sensor.rule is None:
            return False
        wait_ms = min(throttle_time_for_tokens(tokens, sensor.bound), INT_MAX)
        if sensor.shadow is not None:
            sensor.shadow.note(wait_ms, now_ms)
            return True
        kind = QuotaKind.CONTROLLER_MUTATION
        self._throttle = Throttle(kind, wait_ms, sensor.rule, tokens, sensor.bound, sensor)
        self._at_ms = now_ms
        return True


class MutationQuotaManager(QuotaManager[MutationSensor]):
    """The token buckets by client."""

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
    ) -> None:
        build = partial(MutationSensor, window=window)
        super().__init__(QuotaKind.CONTROLLER_MUTATION, window, build, max_sensors, callback)

    def quota_for(self, user: str, client_id: str | None, now_ms: int, *, strict: bool) -> MutationQuota:
        """Return the quota of a request of this client.

        `strict` is for CreateTopics 6, DeleteTopics 5 and CreatePartitions 3 and later.
        """
        sensor = self._usage.sensor(user, client_id, now_ms) if self.active else None
        return MutationQuota(sensor, strict=strict)
