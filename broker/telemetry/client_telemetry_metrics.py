"""Prometheus metrics of client telemetry: Kafka's group client-metrics, and the clients' own metrics.

Called by a scrape. An instance has a series once it has a value.
"""

from collections.abc import Iterator
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, MetricType, Sample, counter, gauge
from broker.metrics.rate import Meter
from broker.telemetry.instance import ClientInstance, uuid_text
from broker.telemetry.latest import Labels, Shape
from broker.telemetry.state import ExportQueue, Telemetry

GROUP: Final = "kafka_server_client_metrics"

METERS: Final = (
    ("throttle", "throttles", "Requests before the end of the push interval"),
    ("plugin_export", "exports", "Pushes accepted by the receivers"),
    ("plugin_error", "errors", "Pushes refused by a receiver"),
)


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
