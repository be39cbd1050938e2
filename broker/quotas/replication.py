"""Replication quotas of leader, follower and moves between log directories. (Kafka: ReplicationQuotaManager,
KIP-73)

The code that reads for a replica or copies one checks the quota: it throttles iff the partition is marked and
the quota is exceeded. The bound is broker configuration; the marked partitions are topic configuration.
Traffic is recorded whether or not it is throttled.

By Kafka's rule the average since the first window decides, so what passes comes in lumps of what a window let
through. With `paced` a token bucket of one window's worth decides: every byte is repaid at the bound.
"""

from collections.abc import Iterable
from math import ceil
from typing import Any, Final

from broker.config.sections.quotas import ALL_REPLICAS, ReplicationConfig, TopicThrottles
from broker.metrics.rate import SimpleRate, TokenBucket, Window
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED

REPLICATION_QUOTA_WINDOW: Final = Window(samples=11, window_ms=1_000)
"""replication.quota.window.num and .size.seconds; the same for alter.log.dirs."""


class ReplicationQuotaManager:
    """One of the three replication quotas.

    `bound` is in bytes per second, UNLIMITED by default, and may be set at any time. `used` says whether any
    traffic was recorded.
    """

    def __init__(
        self, kind: QuotaKind, window: Window = REPLICATION_QUOTA_WINDOW, *, paced: bool = False
    ) -> None:
        self.kind = kind
        self.used = False
        self._bound = UNLIMITED
        self._rate = SimpleRate(window)
        self._bucket = TokenBucket.full(Window(1, window.window_ms), UNLIMITED, 0) if paced else None
        self._marked: dict[str, frozenset[int] | None] = {}

    @property
    def bound(self) -> float:
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._bound = bound
        if self._bucket is not None:
            self._bucket.bound = bound

    def mark(self, topic: str, partitions: Iterable[int] | None = None) -> None:
        """Throttle exactly these partitions of a topic, or all of them without a list."""
        self._marked[topic] = None if partitions is None else frozenset(partitions)

    def unmark(self, topic: str) -> None:
        self._marked.pop(topic, None)

    def is_marked(self, topic: str, partition: int) -> bool:
        """Return whether this partition is subject to the quota. (isThrottled)"""
        if topic not in self._marked:
            return False
        partitions = self._marked[topic]
        return partitions is None or partition in partitions

    def record(self, nbytes: float, now_ms: int) -> None:
        self.used = True
        self._rate.record(nbytes, now_ms)
        if self._bucket is not None:
            self._bucket.record(nbytes, now_ms)

    def observed(self, now_ms: int) -> float:
        """Return the bytes per second over the current windows."""
        return self._rate.peek(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        if self._bucket is not None:
            return self._bucket.measure(now_ms) < 0
        return self._rate.measure(now_ms) > self.bound

    def allowance(self, now_ms: int) -> float:
        """Return the bytes that can be recorded now within the quota, 0 if it is exceeded."""
        if self._bucket is not None:
            return max(self._bucket.measure(now_ms), 0.0)
        left = self.bound - self.observed(now_ms)
        return max(left * self._rate.window_size_ms(now_ms) / 1000, 0.0)

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the quota is no longer exceeded without further traffic; 0 if the
        quota is not exceeded. By Kafka's rule, and with a bound of 0, at most the length of all windows.
        """
        if self._bucket is not None and self.bound > 0:
            return max(ceil(-self._bucket.measure(now_ms) / self.bound * 1000), 0)
        over = self.observed(now_ms) - self.bound
        if over <= 0:
            return 0
        window = self._rate.window
        longest = window.samples * window.window_ms
        if self.bound <= 0:
            return longest
        return min(ceil(over / self.bound * self._rate.window_size_ms(now_ms)), longest)


class ReplicationQuotas:
    """The three replication quotas of a broker."""

    def __init__(self, config: ReplicationConfig, node_id: int, *, paced: bool = False) -> None:
        window = Window(config.window_num, config.window_size_seconds * 1000)
        moves = Window(config.alter_log_dirs_window_num, config.alter_log_dirs_window_size_seconds * 1000)
        self._node_id = node_id
        self.leader = ReplicationQuotaManager(QuotaKind.LEADER_REPLICATION, window, paced=paced)
        self.follower = ReplicationQuotaManager(QuotaKind.FOLLOWER_REPLICATION, window, paced=paced)
        self.alter_log_dirs = ReplicationQuotaManager(
            QuotaKind.ALTER_LOG_DIRS_REPLICATION, moves, paced=paced
        )
        self.configure(config)

    @property
    def managers(self) -> tuple[ReplicationQuotaManager, ...]:
        return self.leader, self.follower, self.alter_log_dirs

    def configure(self, config: ReplicationConfig) -> None:
        """Apply changed rates. Recorded traffic is kept; the windows are fixed."""
        self.leader.bound = float(config.leader_rate)
        self.follower.bound = float(config.follower_rate)
        self.alter_log_dirs.bound = float(config.alter_log_dirs_rate)

    def mark(self, topic: str, throttles: TopicThrottles | None) -> None:
        """Apply changed settings of a topic; None if it was deleted. (TopicConfigHandler)"""
        self._mark(self.leader, topic, () if throttles is None else throttles.leader)
        self._mark(self.follower, topic, () if throttles is None else throttles.follower)

    def _mark(self, manager: ReplicationQuotaManager, topic: str, replicas: Any) -> None:
        if replicas == ALL_REPLICAS:
            manager.mark(topic)
        elif replicas:
            manager.mark(topic, [partition for partition, broker in replicas if broker == self._node_id])
        else:
            manager.unmark(topic)
