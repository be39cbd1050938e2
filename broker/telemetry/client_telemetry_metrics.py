"""What Prometheus reads of client telemetry: Kafka's group client-metrics, and what the clients say
themselves.

Called when somebody looks. A figure of an instance is there once it has something to say.
"""

from collections.abc import Iterator
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample
from broker.metrics.rate import Meter
from broker.telemetry.effective import uuid_text
from broker.telemetry.forwarding import Forwarding
from broker.telemetry.instance import ClientInstance
from broker.telemetry.payload import Labels, Shape
from broker.telemetry.state import Telemetry

GROUP: Final = "kafka_server_client_metrics"

METERS: Final = (
    ("throttle", "throttles", "Requests that came before the push interval was over"),
    ("plugin_export", "exports", "Pushes that the receivers have taken"),
    ("plugin_error", "errors", "Pushes that a receiver has refused"),
)


def families(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    yield from _of_all(telemetry, now_ms)
    yield from _of_instances(telemetry, now_ms)
    yield from _said(telemetry)


def _of_all(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    manager, intake, latest = telemetry.manager, telemetry.intake, telemetry.latest
    yield _gauge(f"{GROUP}_instance_count", "Client instances that are remembered", len(manager))
    unknown = manager.unknown_subscriptions
    yield from _meter(
        "unknown_subscription_request", "Pushes for an unknown subscription", [((), unknown)], now_ms
    )
    yield _gauge("weir_client_telemetry_waiting", "Pushes that wait for their receivers", len(intake.waiting))
    yield _counter("weir_client_telemetry_dropped", "Pushes for which there was no room", intake.dropped)
    yield _counter("weir_client_telemetry_evicted", "Instances forgotten for want of room", manager.evicted)
    yield from _forwarded(telemetry.forwarding)
    yield _gauge("weir_client_telemetry_series", "Figures of clients that are remembered", len(latest))
    yield _counter(
        "weir_client_telemetry_left_out",
        "Figures of clients that found no room or no reader",
        latest.left_out,
    )


def _forwarded(forwarding: Forwarding) -> Iterator[FamilySamples]:
    name = "weir_client_telemetry_otlp"
    yield _gauge(f"{name}_waiting_bytes", "Bytes that wait for the collector", forwarding.waiting_bytes)
    yield _counter(f"{name}_sent", "Pushes that the collector has taken", forwarding.sent)
    yield _counter(f"{name}_dropped", "Pushes that it refused or that found no room", forwarding.dropped)
    yield _counter(f"{name}_retries", "Requests that had to be sent again", forwarding.retries)


def _of_instances(telemetry: Telemetry, now_ms: int) -> Iterator[FamilySamples]:
    heard = [each for each in telemetry.manager if each.throttles or each.exports or each.errors][
        -MAX_SERIES:
    ]
    labels: dict[ClientInstance, Labels] = {
        each: (("client_instance_id", uuid_text(each.id)),) for each in heard
    }
    for name, slot, about in METERS:
        meters = [(labels[each], meter) for each in heard if (meter := getattr(each, slot)) is not None]
        yield from _meter(name, about, meters, now_ms)
    times = [(labels[each], each.export_times) for each in heard if each.export_times is not None]
    for name, about in (("avg", "Milliseconds that the receivers took"), ("max", "The most of them")):
        samples = [Sample(of, getattr(each, name).measure(now_ms)) for of, each in times]
        yield FamilySamples(f"{GROUP}_plugin_export_time_{name}", about, Kind.GAUGE, samples)


def _said(telemetry: Telemetry) -> Iterator[FamilySamples]:
    """Each family under the name that the clients gave it, as an OpenTelemetry collector would write it."""
    whose: dict[bytes, Labels] = {}
    for name, shape, told in telemetry.latest.families():
        samples = []
        for instance_id, labels, value in told:
            if instance_id not in whose:
                whose[instance_id] = _whose(telemetry, instance_id)
            samples.append(Sample(whose[instance_id] + labels, value))
        kind = Kind.COUNTER if shape is Shape.COUNTER else Kind.GAUGE
        yield FamilySamples(name, "As clients push it (KIP-714)", kind, samples)


def _whose(telemetry: Telemetry, instance_id: bytes) -> Labels:
    instance = telemetry.manager.find(instance_id)
    client_id = "" if instance is None else instance.client.client_id or ""
    return ("client_instance_id", uuid_text(instance_id)), ("client_id", client_id)


def _meter(name: str, about: str, meters: list[tuple[Labels, Meter]], now_ms: int) -> Iterator[FamilySamples]:
    rates = [Sample(labels, meter.rate.measure(now_ms)) for labels, meter in meters]
    totals = [Sample(labels, meter.total) for labels, meter in meters]
    yield FamilySamples(f"{GROUP}_{name}_rate", f"{about}, per second", Kind.GAUGE, rates)
    yield FamilySamples(f"{GROUP}_{name}_count", about, Kind.GAUGE, totals)


def _gauge(name: str, about: str, value: float) -> FamilySamples:
    return FamilySamples(name, about, Kind.GAUGE, [Sample((), value)])


def _counter(name: str, about: str, value: float) -> FamilySamples:
    return FamilySamples(f"{name}_total", about, Kind.COUNTER, [Sample((), value)])
