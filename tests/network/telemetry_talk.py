"""Telemetry requests of clients over the wire, and the resulting broker metrics."""

from broker.common.errors import ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from broker.records.compression import Codec, compress
from tests.support.running import RunningBroker
from tests.support.wire import WireClient

INTERVAL_S = 60
NONE, TOO_EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
QUEUE = "org.apache.kafka.producer.record.queue.count"


async def subscribe(broker: RunningBroker, name: str = "s", **configs: str) -> None:
    ops = tuple(ConfigOp(key.replace("_", "."), OpType.SET, text) for key, text in configs.items())
    resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops),))
    (outcome,) = await broker.server.control.apply(command, BROKER_ITSELF)
    assert outcome.ok, outcome


async def ask(client: WireClient, instance_id: bytes = bytes(16)) -> GetTelemetrySubscriptionsResponse:
    answer: GetTelemetrySubscriptionsResponse = await client.ask(
        GetTelemetrySubscriptionsRequest(instance_id), 0
    )
    assert answer.throttle_time_ms == 0
    return answer


async def push(
    client: WireClient,
    subscription: GetTelemetrySubscriptionsResponse,
    plain: bytes = b"",
    codec: int = Codec.ZSTD,
    *,
    packed: bytes | None = None,
    terminating: bool = False,
) -> int:
    """Push metrics and return the error code."""
    payload = packed if packed is not None else bytes(compress(codec, plain)) if plain else b""
    request = PushTelemetryRequest(
        subscription.client_instance_id, subscription.subscription_id, terminating, codec, payload
    )
    answer = await client.ask(request, 0)
    assert answer.throttle_time_ms == 0
    return int(answer.error_code)


def figures(broker: RunningBroker) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the Prometheus metrics by family and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in broker.server.prometheus.families():
        for sample in family.samples:
            found.setdefault(family.name, {})[sample.labels] = sample.value
    return found


def total(broker: RunningBroker, name: str) -> float:
    return sum(figures(broker).get(f"kafka_server_client_metrics_{name}", {}).values())
