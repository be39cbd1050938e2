"""The state that handlers and tasks share: the queue of pushes, the queue for a collector, and all parts; and
its Prometheus metrics.

`Telemetry` is made by `broker.server.broker` and passed to the handlers and to readers of metrics. The
handler of PushTelemetry fills the queue of pushes; one task empties it and does the slow work in a thread
(broker.monitoring.otlp). Both queues are bounded, and have no socket and no clock.

A scrape calls `families`: Kafka's group client-metrics, and the clients' own metrics. An instance has a
series once it has a value.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from broker.config.sections import TelemetryConfig
from broker.metrics.families import MAX_SERIES, FamilySamples, MetricType, Sample, counter, gauge
from broker.metrics.rate import Meter
from broker.telemetry.instance import ClientInstance, TelemetryClient, uuid_text
from broker.telemetry.latest import Labels, LatestValues, Shape
from broker.telemetry.manager import TelemetryManager

MAX_WAITING: Final = 512
MAX_WAITING_BYTES: Final = 33_554_432
"""Maximum pushes, and bytes of them, in the queue; ours. A client whose push does not fit retries an
interval later.
"""

BATCH_BYTES: Final = 1_048_576
"""The size from which a request takes no more pushes; ours, below collectors' default limits."""

GROUP: Final = "kafka_server_client_metrics"

METERS: Final = (
    ("throttle", "throttles", "Requests before the end of the push interval"),
    ("plugin_export", "exports", "Pushes accepted by the receivers"),
    ("plugin_error", "errors", "Pushes refused by a receiver"),
)


class Push(msgspec.Struct, frozen=True):
    """A push. `payload` is as received, compressed by `codec`; `token` identifies the pending response."""

    instance: ClientInstance
    client: TelemetryClient
    subscription_id: int
    terminating: bool
    codec: int
    payload: bytes
    wall_ms: int
    token: Any = None


class PushQueue:
    """A bounded FIFO queue of pushes for the receivers."""

    def __init__(self) -> None:
        self.waiting: deque[Push] = deque()
        self.waiting_bytes = 0
        self.peak = 0
        self.dropped = 0
        """Pushes dropped because the queue was full."""
        self._wake: Callable[[], None] = _ignore

    def on_addition(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each addition."""
        self._wake = wake

    def has_space(self, size: int) -> bool:
        """Return whether a push fits; an empty queue accepts any size."""
        if not self.waiting:
            return True
        return len(self.waiting) < MAX_WAITING and self.waiting_bytes + size <= MAX_WAITING_BYTES

    def add(self, push: Push) -> None:
        self.waiting.append(push)
        self.waiting_bytes += len(push.payload)
        self.peak = max(self.peak, len(self.waiting))
        self._wake()

    def take(self) -> Push:
        """Remove and return the next push. The queue must not be empty."""
        push = self.waiting.popleft()
        self.waiting_bytes -= len(push.payload)
        return push


class ExportQueue:
    """A queue of pushes for a collector, of at most `max_bytes`. Counters are of pushes since the start.

    Concatenated pushes of several clients are one request: OTLP's request is a repeated field, as a push is.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.waiting_bytes = 0
        self.sent = self.dropped = self.retries = 0
        self._waiting: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, body: bytes) -> None:
        """Add a push without waiting; drop and count it if the queue is full."""
        if self.waiting_bytes + len(body) > self.max_bytes:
            self.dropped += 1
            return
        self.waiting_bytes += len(body)
        self._waiting.append(body)

    def take(self) -> list[bytes]:
        """Remove and return the pushes of the next request."""
        batch: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1])
        self.waiting_bytes -= size
        return batch


class Telemetry:
    def __init__(self, config: TelemetryConfig) -> None:
        self.config = config
        self.latest = LatestValues(config.max_series)
        self.manager = TelemetryManager(
            config.max_bytes, config.max_instances, self.latest, partial(os.urandom, 16)
        )
        self.push_queue = PushQueue()
        self.export_queue = ExportQueue(config.otlp_queue_bytes)


def _ignore() -> None:
    """Stands for a task that does not exist yet."""


def families(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    yield from _broker_families(telemetry, now_ms)
    yield from _instance_families(telemetry, now_ms)
    yield from _pushed_families(telemetry)


def _broker_families(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    manager, queue, latest = telemetry.manager, telemetry.push_queue, telemetry.latest
    yield gauge(f"{GROUP}_instance_count", "Client instances in the cache", len(manager))
    unknown = manager.unknown_subscriptions
    yield from _meter(
        "unknown_subscription_request", "Pushes for an unknown subscription", [((), unknown)], now_ms
    )
    yield gauge("weir_client_telemetry_waiting", "Pushes waiting for their receivers", len(queue.waiting))
    yield counter(
        "weir_client_telemetry_dropped_total", "Pushes dropped because the queue was full", queue.dropped
    )
    yield counter(
        "weir_client_telemetry_evicted_total", "Instances evicted because the cache was full", manager.evicted
    )
    yield from _export_families(telemetry.export_queue)
    yield gauge("weir_client_telemetry_series", "Series of client metrics in memory", len(latest))
    yield counter(
        "weir_client_telemetry_left_out_total",
        "Data points of clients left out: unreadable, or beyond the limits",
        latest.left_out,
    )


def _export_families(queue: ExportQueue) -> Iterator[FamilySamples]:
    name = "weir_client_telemetry_otlp"
    yield gauge(f"{name}_waiting_bytes", "Bytes waiting for the collector", queue.waiting_bytes)
    yield counter(f"{name}_sent_total", "Pushes accepted by the collector", queue.sent)
    yield counter(
        f"{name}_dropped_total",
        "Pushes that the collector refused or that found the queue full",
        queue.dropped,
    )
    yield counter(f"{name}_retries_total", "Requests to the collector that were retried", queue.retries)


def _instance_families(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    active = [each for each in telemetry.manager if each.throttles or each.exports or each.errors][
        -MAX_SERIES:
    ]
    labels: dict[ClientInstance, Labels] = {
        each: (("client_instance_id", uuid_text(each.id)),) for each in active
    }
    for name, slot, about in METERS:
        meters = [(labels[each], meter) for each in active if (meter := getattr(each, slot)) is not None]
        yield from _meter(name, about, meters, now_ms)
    times = [(labels[each], each.export_times) for each in active if each.export_times is not None]
    for name, about in (
        ("avg", "Mean milliseconds of the receivers"),
        ("max", "Maximum milliseconds of the receivers"),
    ):
        samples = [Sample(of, getattr(each, name).measure(now_ms)) for of, each in times]
        yield gauge(f"{GROUP}_plugin_export_time_{name}", about, samples)


def _pushed_families(telemetry: Telemetry) -> Iterator[FamilySamples]:
    """Yield each family under the client's name for it, written as an OpenTelemetry collector would."""
    labels_by_instance: dict[bytes, Labels] = {}
    for name, shape, series in telemetry.latest.families():
        samples = []
        for instance_id, labels, value in series:
            if instance_id not in labels_by_instance:
                labels_by_instance[instance_id] = _labels_of(telemetry, instance_id)
            samples.append(Sample(labels_by_instance[instance_id] + labels, value))
        kind = MetricType.COUNTER if shape is Shape.COUNTER else MetricType.GAUGE
        yield FamilySamples(name, "Pushed by clients (KIP-714)", kind, samples)


def _labels_of(telemetry: Telemetry, instance_id: bytes) -> Labels:
    instance = telemetry.manager.find(instance_id)
    client_id = "" if instance is None else instance.client.client_id or ""
    return ("client_instance_id", uuid_text(instance_id)), ("client_id", client_id)


def _meter(name: str, about: str, meters: list[tuple[Labels, Meter]], now_ms: int) -> Iterator[FamilySamples]:
    rates = [Sample(labels, meter.rate.measure(now_ms)) for labels, meter in meters]
    totals = [Sample(labels, meter.total) for labels, meter in meters]
    yield gauge(f"{GROUP}_{name}_rate", f"{about}, per second", rates)
    yield gauge(f"{GROUP}_{name}_count", about, totals)
