"""Throttles: a row for each connection and rule per second.

Reported by the network's `Throttling`.
"""

from collections.abc import Iterator

from broker.events.source import encode, entity_of, topic_of
from broker.network.connection.channel import Channel
from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.quotas.throttled import Throttle


class _Throttled:
    """The sum of a row's throttles, with the observed value and bound of the last one."""

    __slots__ = ("channel", "count", "last", "longest_ms", "total_ms")

    def __init__(self, channel: Channel, throttle: Throttle) -> None:
        self.channel = channel
        self.last = throttle
        self.count = self.total_ms = self.longest_ms = 0

    def add(self, throttle: Throttle) -> None:
        self.last = throttle
        self.count += 1
        self.total_ms += throttle.throttle_ms
        self.longest_ms = max(self.longest_ms, throttle.throttle_ms)


class ThrottleEvents:
    """A `Source` with at most `most` rows."""

    def __init__(self, most: int, throttle_compliance: ThrottleCompliance) -> None:
        self.topic = topic_of("throttles")
        self.left_out = 0
        self._most = most
        self._throttle_compliance = throttle_compliance
        self._rows: dict[tuple[Channel, QuotaKind, Governing], _Throttled] = {}

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        key = channel, throttle.kind, throttle.rule
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= self._most:
                self.left_out += 1
                return
            row = self._rows[key] = _Throttled(channel, throttle)
        row.add(throttle)

    def take(self, time_ms: int) -> Iterator[bytes]:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            channel, last = row.channel, row.last
            seen = self._throttle_compliance.take_observations(channel)
            yield encode(
                time_ms,
                {
                    "kind": last.kind,
                    "entity": entity_of(last.rule.pairs),
                    "principal": channel.principal,
                    "client_id": channel.client_id or "",
                    "connection": channel.id,
                    "listener": channel.listener,
                    "address": channel.address,
                    "software_name": channel.software_name,
                    "software_version": channel.software_version,
                    "observed": last.observed,
                    "bound": last.bound,
                    "count": row.count,
                    "throttle_ms": row.total_ms,
                    "longest_ms": row.longest_ms,
                    "obeys": seen.obeys,
                    "waited": seen.waited,
                    "sent_early": seen.sent_early,
                },
            )
