"""The throttle on moving replicas, for leader, follower and between log directories. (Kafka:
ReplicationQuotaManager, KIP-73)

Asked by whoever reads for a replica or copies one: throttle it iff its partition is marked and the quota is
exceeded. Its bound comes from broker configuration and the marked partitions from topic configuration.
Traffic is recorded whether or not it is throttled.
"""

from collections.abc import Iterable
from typing import Final

from broker.metrics.rate import SimpleRate
from broker.metrics.window import Window
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED

REPLICATION_QUOTA_WINDOW: Final = Window(samples=11, window_ms=1_000)
"""replication.quota.window.num and .size.seconds; the same for alter.log.dirs."""


class ReplicationQuotaManager:
    """One of the three directions.

    `bound` is in bytes per second, UNLIMITED by default, and may be set at any time.
    """

    __slots__ = ("_marked", "_rate", "bound", "kind")

    def __init__(self, kind: QuotaKind, window: Window = REPLICATION_QUOTA_WINDOW) -> None:
        self.kind = kind
        self.bound = UNLIMITED
        self._rate = SimpleRate(window)
        self._marked: dict[str, frozenset[int] | None] = {}

    def mark(self, topic: str, partitions: Iterable[int] | None = None) -> None:
        """Throttles these partitions of a topic, and no others of it; all of them without a list."""
        self._marked[topic] = None if partitions is None else frozenset(partitions)

    def unmark(self, topic: str) -> None:
        self._marked.pop(topic, None)

    def is_marked(self, topic: str, partition: int) -> bool:
        """Whether this partition is to be throttled at all. (isThrottled)"""
        if topic not in self._marked:
            return False
        partitions = self._marked[topic]
        return partitions is None or partition in partitions

    def record(self, nbytes: float, now_ms: int) -> None:
        self._rate.record(nbytes, now_ms)

    def observed(self, now_ms: int) -> float:
        """Bytes per second over the windows in sight."""
        return self._rate.measure(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.observed(now_ms) > self.bound
