"""A manager, clients and a manual clock; and pushes in the clients' format."""

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.records.compression import Codec
from broker.telemetry.instance import ClientInstance, TelemetryClient
from broker.telemetry.latest import LatestValues
from broker.telemetry.manager import TelemetryManager
from broker.telemetry.subscription import read_subscription

DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def client(number: int = 1, **more: Any) -> TelemetryClient:
    known = {
        "connection_id": f"127.0.0.1:9092-10.0.0.{number}:50000-0-{number}",
        "client_id": f"client-{number}",
        "software_name": "apache-kafka-java",
        "software_version": "4.1.0",
        "address": f"10.0.0.{number}",
        "port": 50_000,
        "principal": "ANONYMOUS",
    }
    return TelemetryClient(**{**known, **more})


class Scene:
    """`now_ms` starts far from zero, like a broker's clock."""

    def __init__(self, max_instances: int = 100, max_bytes: int = 1_000) -> None:
        self.now_ms = 1_000_000
        self.latest = LatestValues(1_000)
        self.made = 0
        self.manager = TelemetryManager(max_bytes, max_instances, self.latest, self._new_id)

    def _new_id(self) -> bytes:
        self.made += 1
        return self.made.to_bytes(16, "big") if self.made > 1 else bytes(16)

    def subscribe(self, name: str = "s", **configs: str) -> None:
        settings = {key.replace("_", "."): text for key, text in configs.items()}
        self.manager.on_metadata_update(
            {name: run_through(read_subscription(name, settings)) if settings else None}
        )

    def get(self, instance: ClientInstance | None = None, who: TelemetryClient | None = None) -> ErrorCode:
        asks = bytes(16) if instance is None else instance.id
        error, _ = run_through(
            self.manager.get(asks, who or (instance.client if instance else client()), self.now_ms)
        )
        return error

    def join(self, number: int = 1) -> ClientInstance:
        """Return a client after its first Get."""
        error, instance = run_through(self.manager.get(bytes(16), client(number), self.now_ms))
        assert error is ErrorCode.NONE
        return instance

    def push(self, instance: ClientInstance, who: TelemetryClient | None = None, **more: Any) -> ErrorCode:
        labels = {
            "subscription_id": instance.subscription_id,
            "terminating": False,
            "codec": Codec.ZSTD,
            "size": 9,
        }
        steps = self.manager.push(
            more.pop("instance_id", instance.id), who or instance.client, self.now_ms, **{**labels, **more}
        )
        error, _ = run_through(steps)
        return error


def metrics(*new: Metric) -> bytes:
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.extend(new)
    return bytes(data.SerializeToString())


def gauge(name: str, value: float, **attributes: str | int | float | bool) -> Metric:
    metric = Metric(name=name)
    point = metric.gauge.data_points.add(as_double=value)
    point.attributes.extend(_attributes(attributes.items()))
    return metric


def counter(
    name: str, value: int, temporality: Any = DELTA, *, monotonic: bool = True, **attributes: str
) -> Metric:
    metric = Metric(name=name)
    metric.sum.aggregation_temporality = temporality
    metric.sum.is_monotonic = monotonic
    point = metric.sum.data_points.add(as_int=value)
    point.attributes.extend(_attributes(attributes.items()))
    return metric


def _attributes(pairs: Iterable[tuple[str, str | int | float | bool]]) -> Iterable[KeyValue]:
    for key, value in pairs:
        match value:
            case bool():
                yield KeyValue(key=key, value=AnyValue(bool_value=value))
            case int():
                yield KeyValue(key=key, value=AnyValue(int_value=value))
            case float():
                yield KeyValue(key=key, value=AnyValue(double_value=value))
            case _:
                yield KeyValue(key=key, value=AnyValue(string_value=value))
