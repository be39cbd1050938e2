"""The quota on time: percent of one thread that a client's requests keep busy. (Kafka:
ClientRequestQuotaManager, KIP-124)

Called around every request by whoever measures it: handler time when the request is answered, network time
when the answer is out. A throttle is never longer than one window, since time that was used cannot be given
back by waiting longer.
"""

from typing import Final

from broker.metrics.rate import Rate
from broker.metrics.window import Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.guarded import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.usage import MAX_SENSORS
from broker.quotas.verdict import Throttle

PERCENT_OF_A_SECOND_PER_NS: Final = 100.0 / 1e9


class RequestQuotaManager(RateQuotaManager):
    """Records nanoseconds as percent of one second. `exempt` is what is measured and never limited."""

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

    def record_handled(self, user: str, client_id: str | None, ns: int, now_ms: int) -> Throttle | None:
        """Counts the time that handling took; the throttle if that breaks the client's quota."""
        return self.record(user, client_id, ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)

    def record_sent(self, user: str, client_id: str | None, ns: int, now_ms: int) -> None:
        """Counts the network room's time, known only when the answer with the throttle is out."""
        self.record_unchecked(user, client_id, ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)

    def record_exempt(self, ns: int, now_ms: int) -> None:
        """Counts time that no client is held to: acks=0, cluster actions and their errors."""
        if self.active:
            self.exempt.record(ns * PERCENT_OF_A_SECOND_PER_NS, now_ms)
