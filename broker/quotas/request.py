"""The quota on request time: percent of one thread that a client's requests use. (Kafka:
ClientRequestQuotaManager, KIP-124)

Called around every request: with the handler time before the response is sent, and with the network time
after. A throttle is at most one window long, since a longer one cannot return time already used.
"""

from typing import Final, Self

from broker.metrics.rate import Rate, Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.throttled import Throttle
from broker.quotas.usage import MAX_SENSORS

PERCENT_OF_A_SECOND_PER_NS: Final = 100.0 / 1e9


class RequestQuotaManager(RateQuotaManager):
    """Records nanoseconds as percent of one second. `exempt` measures time without a limit."""

    __slots__ = ("exempt",)

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
    ) -> None:
        super().__init__(
            QuotaKind.REQUEST, window, window.window_ms, max_sensors=max_sensors, callback=callback
        )
        self.exempt = Rate(window)

    def part(self, node: int) -> Self:
        made = super().part(node)
        made.exempt = self.exempt
        return made

    def _without_rules(self) -> "RequestQuotaManager":
        return RequestQuotaManager(self._window)

    def record_handled(self, user: str, client_id: str | None, ns: int, now_ms: int) -> Throttle | None:
        """Record handler time. Return a throttle if it violates the client's quota."""
        return self.record(user, client_id, ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)

    def record_sent(self, user: str, client_id: str | None, ns: int, now_ms: int) -> None:
        """Record network time, known only after the response with the throttle was sent."""
        self.record_unchecked(user, client_id, ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)

    def record_cached(self, user: str, client_id: str | None, ns: int, now_ms: int) -> bool:
        """Record network time. Return whether the client is within its limit."""
        if not self.active:
            return True
        sensor = self._usage.sensor(user, client_id, now_ms)
        sensor.last_record_ms = now_ms
        sensor.rate.record(ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)
        return sensor.rule is None or sensor.rate.measure(now_ms) <= sensor.bound

    def record_exempt(self, ns: int, now_ms: int) -> None:
        """Record time that counts for no client: replica fetches and their errors, and other brokers."""
        if self.active:
            self.exempt.record(ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)
