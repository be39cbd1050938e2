"""The client instances, their subscriptions, and the checks of their requests. (KIP-714; Kafka:
ClientMetricsManager)

Called by the handlers of GetTelemetrySubscriptions and PushTelemetry, and on changed subscriptions, closed
connections and timers. Reads no payload: callers report the result of a push to `exported` and `failed`.

A connection stands for one client instance. A connection that uses another id releases the first, so that a
client cannot fill the cache with invented ids. An instance that returns over another connection is the
same, and survives the close of the first one. Both are ours: Kafka keeps every id until it expires, and
removes it with the connection that used it first.
"""

import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from broker.metrics.rate import Meter
from broker.records.compression import Codec
from broker.telemetry.instance import WINDOW, ClientInstance, TelemetryClient, uuid_text
from broker.telemetry.latest import LatestValues
from broker.telemetry.subscription import Subscription, effective_of, matching

logger = logging.getLogger(__name__)

MIN_EXPIRY_MS: Final = 60_000
EXPIRY_INTERVALS: Final = 3
"""An instance expires after this number of push intervals without a request."""

WARNING_MS: Final = 300_000
"""Minimum interval between warnings that the cache is too small, and that subscriptions have too many
prefixes.
"""

RESERVED: Final = (bytes(16), bytes(15) + b"\x01")
"""Ids that no client may have (Kafka: Uuid.RESERVED)."""

_SPARE_DEADLINES: Final = 1_024


class TelemetryManager:
    """A cache of the `max_instances` most recently active instances.

    Removing an instance removes its values in `latest`. `new_id` returns 16 random bytes.
    """

    def __init__(
        self, max_bytes: int, max_instances: int, latest: LatestValues, new_id: Callable[[], bytes]
    ) -> None:
        self.max_bytes = max_bytes
        self.max_instances = max_instances
        self.version = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.unknown_subscriptions = Meter(WINDOW)
        self.evicted = 0
        """Instances removed because the cache was full."""
        self._latest = latest
        self._new_id = new_id
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._by_connection: dict[str, ClientInstance] = {}
        self._deadlines: list[tuple[int, int, ClientInstance]] = []
        self._entries = 0
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each deadline that is added, in ms."""
        self._warned_ms: int | None = None
        self._warned_of_prefixes_ms: int | None = None

    def __len__(self) -> int:
        return len(self._instances)

    def __iter__(self) -> Iterator[ClientInstance]:
        """Iterate from the least recently active instance."""
        return iter(self._instances.values())

    def find(self, instance_id: bytes) -> ClientInstance | None:
        """Return an instance without marking it as active."""
        return self._instances.get(instance_id)

    def on_metadata_update(self, changed: Mapping[str, Subscription | None]) -> None:
        """Apply changed subscriptions by name; None removes one.

        Every instance recomputes its subscription on its next request, and may then get and push at once.
        """
        for name, subscription in changed.items():
            if subscription is None:
                self.subscriptions.pop(name, None)
            else:
                self.subscriptions[name] = subscription
            self.version += 1

    def matched(self, instance: ClientInstance) -> Steps[tuple[str, ...]]:
        """Return the sorted names of the subscriptions that match the instance now.

        Cached until a subscription changes, for callers that read thousands of instances.
        """
        if instance.matched_version != self.version:
            version = self.version
            found = yield from matching(self.subscriptions.values(), instance.client.facts(instance.id))
            instance.matched, instance.matched_version = _names(found), version
        return instance.matched

    def get(
        self, instance_id: bytes, client: TelemetryClient, now_ms: int
    ) -> Steps[tuple[ErrorCode, ClientInstance]]:
        """Handle a Get; the id zero creates a new one. Return NONE or THROTTLING_QUOTA_EXCEEDED.

        All pauses come before anything has changed.
        """
        known_id = instance_id if any(instance_id) else self._unused_id()
        instance = yield from self._refresh(known_id, client, now_ms)
        if not instance.may_get(now_ms):
            instance.count_throttle(now_ms)
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, instance
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, instance

    def push(
        self,
        instance_id: bytes,
        client: TelemetryClient,
        now_ms: int,
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        size: int,
    ) -> Steps[tuple[ErrorCode, ClientInstance | None]]:
        """Check a push of `size` bytes, in Kafka's order. Pauses as `get` does.

        After NONE the caller must report its result to `exported` or `failed`, unless it is empty.
        """
        if instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST, None
        instance = yield from self._refresh(instance_id, client, now_ms)
        if instance.terminating:
            error = ErrorCode.INVALID_REQUEST
        elif not instance.may_push(now_ms) and not terminating:
            instance.count_throttle(now_ms)
            error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            self.unknown_subscriptions.record(1, now_ms)
            error = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif codec not in list(Codec):
            error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size > self.max_bytes:
            error = ErrorCode.TELEMETRY_TOO_LARGE
        else:
            error = ErrorCode.NONE
        instance.last_error = error
        instance.terminating = instance.terminating or terminating
        return error, instance

    def exported(
        self, instance: ClientInstance, size: int, took_ms: float, now_ms: int, wall_ms: int
    ) -> None:
        """Record that the receivers accepted a push of `size` bytes."""
        instance.count_export(took_ms, now_ms)
        instance.last_error = ErrorCode.NONE
        instance.last_push_wall_ms = wall_ms
        instance.pushed_bytes += size

    def failed(self, instance: ClientInstance, error: ErrorCode, now_ms: int) -> None:
        """Record that a receiver refused a push."""
        instance.count_error(now_ms)
        instance.last_error = error

    def disconnected(self, connection_id: str) -> None:
        """Remove the instance of a closed connection; most connections have none."""
        instance = self._by_connection.pop(connection_id, None)
        if instance is not None and instance.client.connection_id == connection_id:
            self._forget(instance)

    def next_deadline(self) -> int | None:
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now_ms: int) -> None:
        """Remove the expired instances."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_ms:
            due_ms, _, instance = heapq.heappop(deadlines)
            if instance.gone or due_ms != instance.checked_at_ms:
                continue
            if instance.deadline_ms <= now_ms:
                self._forget(instance)
            else:
                self._queue_deadline(instance)

    def _refresh(self, instance_id: bytes, client: TelemetryClient, now_ms: int) -> Steps[ClientInstance]:
        """Return the instance of this id, created if new, with its subscription up to date.

        If a subscription changes during a pause, the next request computes it again.
        """
        instance = self._instances.get(instance_id)
        selected, version = None, self.version
        if instance is None or instance.version != version or instance.client != client:
            found = yield from matching(self.subscriptions.values(), client.facts(instance_id))
            selected = (yield from effective_of(found)), _names(found), version
            if selected[0].is_over_limit:
                self._warn_of_prefixes(selected[1], client, now_ms)
            instance = self._instances.get(instance_id)
        if instance is None:
            assert selected is not None
            instance = ClientInstance(instance_id, client, *selected)
            self._admit(instance, now_ms)
        else:
            self._instances.move_to_end(instance_id)
            if selected is not None:
                is_changed = instance.version != version
                instance.renew(*selected)
                if is_changed:
                    instance.open_gates()
            instance.client = client
            instance.deadline_ms = now_ms + _expiry_ms(instance)
            if instance.deadline_ms < instance.checked_at_ms:
                self._queue_deadline(instance)
        self._bind(client.connection_id, instance)
        return instance

    def _admit(self, instance: ClientInstance, now_ms: int) -> None:
        instance.deadline_ms = now_ms + _expiry_ms(instance)
        self._instances[instance.id] = instance
        self._queue_deadline(instance)
        if len(self._instances) > self.max_instances:
            eldest = next(iter(self._instances.values()))
            self._forget(eldest)
            self.evicted += 1
            self._warn(eldest, now_ms)

    def _bind(self, connection_id: str, instance: ClientInstance) -> None:
        before = self._by_connection.get(connection_id)
        if before is instance:
            return
        self._by_connection[connection_id] = instance
        if before is not None and before.client.connection_id == connection_id:
            self._forget(before)

    def _forget(self, instance: ClientInstance) -> None:
        instance.gone = True
        del self._instances[instance.id]
        self._latest.drop(instance.id)
        connection_id = instance.client.connection_id
        if self._by_connection.get(connection_id) is instance:
            del self._by_connection[connection_id]
        if len(self._deadlines) > 2 * len(self._instances) + _SPARE_DEADLINES:
            self._deadlines = [each for each in self._deadlines if not each[2].gone]
            heapq.heapify(self._deadlines)

    def _queue_deadline(self, instance: ClientInstance) -> None:
        self._entries += 1
        instance.checked_at_ms = instance.deadline_ms
        heapq.heappush(self._deadlines, (instance.deadline_ms, self._entries, instance))
        self.on_deadline(instance.deadline_ms)

    def _warn(self, evicted: ClientInstance, now_ms: int) -> None:
        if self._warned_ms is None or now_ms - self._warned_ms > WARNING_MS:
            self._warned_ms = now_ms
            logger.warning(
                "the client telemetry cache is full: an instance was evicted before it expired",
                extra={
                    "instance": uuid_text(evicted.id),
                    "telemetry.max.client.instances": self.max_instances,
                },
            )

    def _warn_of_prefixes(self, subscriptions: Collection[str], client: TelemetryClient, now_ms: int) -> None:
        if self._warned_of_prefixes_ms is None or now_ms - self._warned_of_prefixes_ms > WARNING_MS:
            self._warned_of_prefixes_ms = now_ms
            logger.warning(
                "the subscriptions of a client have too many prefixes and select all metrics",
                extra={"client_id": client.client_id, "subscriptions": len(subscriptions)},
            )

    def _unused_id(self) -> bytes:
        """Return an unused id that a command line does not parse as an option."""
        while True:
            fresh = self._new_id()
            if fresh not in RESERVED and fresh not in self._instances and uuid_text(fresh)[0] != "-":
                return fresh


def _names(subscriptions: Iterable[Subscription]) -> tuple[str, ...]:
    return tuple(sorted(each.name for each in subscriptions))


def _expiry_ms(instance: ClientInstance) -> int:
    return max(MIN_EXPIRY_MS, EXPIRY_INTERVALS * instance.effective.interval_ms)
