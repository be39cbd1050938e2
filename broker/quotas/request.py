"""The quota on request time: percent of one thread that a client's requests use. (Kafka:
ClientRequestQuotaManager, KIP-124)

Called around every request: with the handler time before the response is sent, and with the network time
after. By Kafka's rule a throttle is at most one window long. A client whose requests take more than their
share of a window gets more than its limit so; a `paced` client repays its debt, in throttles that are at most
as long as all windows together, so that a client with a high debt keeps its session.
"""

from collections.abc import Callable
from typing import Final, Self

from broker.metrics.rate import Rate, Window
from broker.quotas.bandwidth import RateQuotaManager, RateSensor
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.throttled import Throttle
from broker.quotas.usage import MAX_SENSORS

PERCENT_OF_A_SECOND_PER_NS: Final = 100.0 / 1e9


class RequestQuotaManager(RateQuotaManager):
    """Records nanoseconds as percent of one second. `exempt` measures time without a limit."""

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        max_sensors: int = MAX_SENSORS,
        callback: GuardedCallback | None = None,
        *,
        paced: bool = False,
        build: Callable[[str | None, str | None, int], RateSensor] | None = None,
    ) -> None:
        super().__init__(
            QuotaKind.REQUEST,
            window,
            window.window_ms * (window.samples if paced else 1),
            paced=paced,
            max_sensors=max_sensors,
            callback=callback,
            build=build,
        )
        self.exempt = Rate(window)

    def part(self, node: int) -> Self:
        made = super().part(node)
        made.exempt = self.exempt
        return made

    def _without_rules(self) -> "RequestQuotaManager":
        return RequestQuotaManager(self._window, paced=self._paced)

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
        percent = ns * PERCENT_OF_A_SECOND_PER_NS
        sensor.rate.record(percent, now_ms)
        if sensor.rule is None:
            return True
        pace = sensor.pace
        if pace is None or pace.is_over(now_ms):
            return sensor.rate.measure(now_ms) <= sensor.bound
        owed = pace.owed(sensor.bound, now_ms)
        pace.refund(-percent)
        return owed <= 0

    def record_exempt(self, ns: int, now_ms: int) -> None:
        """Record time that counts for no client: replica fetches and their errors, and other brokers."""
        if self.active:
            self.exempt.record(ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)
