"""PushTelemetry: a client's metrics, in OTLP. (KIP-714)

Version 0. Checked in Kafka's order: the instance id, whether the client has announced its termination, the
push interval, the subscription id, the compression, the size. The response waits until the receivers have
accepted the metrics: INVALID_RECORD if one refuses them, TELEMETRY_TOO_LARGE if they exceed the limit once
decompressed, THROTTLING_QUOTA_EXCEEDED if the queue of pushes is full. Not announced if `telemetry.enabled`
is false.
"""

from broker.api.a71_get_telemetry_subscriptions import telemetry_client
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.telemetry import PushTelemetryRequest, PushTelemetryResponse
from broker.telemetry.state import Push, Telemetry


@api(ApiKey.PUSH_TELEMETRY, versions=(0, 0), services=Telemetry)
def handle(message: PushTelemetryRequest, context: RequestContext, telemetry: Telemetry) -> Slices[Outcome]:
    client = telemetry_client(context)
    size = len(message.metrics)
    error, instance = yield from telemetry.manager.push(
        message.client_instance_id,
        client,
        context.now_ms,
        subscription_id=message.subscription_id,
        terminating=message.terminating,
        codec=message.compression_type,
        size=size,
    )
    if error is not ErrorCode.NONE or not size:
        return Response(PushTelemetryResponse(error_code=error))
    assert instance is not None
    if not telemetry.push_queue.has_space(size):
        telemetry.push_queue.dropped += 1
        return Response(PushTelemetryResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    telemetry.push_queue.add(
        Push(
            instance,
            client,
            message.subscription_id,
            message.terminating,
            message.compression_type,
            bytes(message.metrics),
            context.wall_ms,
            context,
        )
    )
    return DELAYED
