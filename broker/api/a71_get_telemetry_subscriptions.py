"""GetTelemetrySubscriptions: the metrics that a client pushes, and its push interval. (KIP-714)

Version 0. A client without an instance id gets one. A client that asks again before its push interval has
elapsed gets THROTTLING_QUOTA_EXCEEDED, unless a subscription has changed or its last push named an unknown
subscription or compression. The wait is not in throttle_time_ms, which would pause the client's other
requests too. Not announced if `telemetry.enabled` is false.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.records.compression import Codec
from broker.telemetry.instance import TelemetryClient
from broker.telemetry.state import Telemetry

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In order of preference, as clients read it."""


def telemetry_client(context: RequestContext) -> TelemetryClient:
    """Return the client of a telemetry request."""
    connection = context.connection
    return TelemetryClient(
        connection.id,
        context.client_id,
        connection.software_name,
        connection.software_version,
        connection.address,
        connection.port,
        connection.principal,
    )


@api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), services=Telemetry)
def handle(
    message: GetTelemetrySubscriptionsRequest, context: RequestContext, telemetry: Telemetry
) -> Slices[Outcome]:
    manager, client = telemetry.manager, telemetry_client(context)
    error, instance = yield from manager.get(message.client_instance_id, client, context.now_ms)
    if error is not ErrorCode.NONE:
        return Response(GetTelemetrySubscriptionsResponse(error_code=error))
    return Response(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance.id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(ACCEPTED),
            push_interval_ms=instance.effective.interval_ms,
            telemetry_max_bytes=manager.max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.effective.metrics),
        )
    )
